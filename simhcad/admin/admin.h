/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control socket: how tools talk to the daemon.
 *
 * <runtime directory>/control is an AF_UNIX SOCK_SEQPACKET socket. Each datagram, either way, is
 * one JSON object; each request gets one answer, in order. "ok" says whether it was served:
 *
 *	-> {"cmd": "...", "version": 2}
 *	<- {"ok": true, "version": 2, ...}    or    {"ok": false, "version": 2, "error": "one line"}
 *
 * "version" is that of the protocol (common/control_protocol.h, where the commands' names are, too).
 * A request of another version is refused; one that has none is taken as one of ours.
 *
 * lease	The connection counts as a user of the daemon until it is closed. A daemon started
 *		with --captive ends when the last lease is gone and nobody has a device open any
 *		more, 2 seconds later at most, and when none was taken within 10 seconds.
 *	<- {"ok": true, "pid": 123,
 *	    "options": "--devices=1 --link-layer=ethernet --netdev=lo ..."}
 *		The options are those in effect, words with spaces between; --device=NAME,.. where
 *		devices differ. Options that concern the run alone (directory, log) are left out.
 *
 * status	The report can be larger than a datagram: it is the text of one JSON object in a
 *		memfd that comes with the answer, to be read from offset 0 to its size.
 *	<- {"ok": true, "memfd": true}, and the descriptor as SCM_RIGHTS
 *	   {"ok": true, "version": "0.1.0", "pid": 123, "uptime_s": 5, "runtime_dir": "...",
 *	    "options": "...", "captive": false, "leases": 1,
 *	    "devices": [{"name": "simhca0", "link_layer": "Ethernet", "netdev": "lo",
 *			 "state": "ACTIVE", "mtu": 4096, "node_guid": "0200:0000:0000:0001",
 *			 "gids": ["fe80:...", "0000:...", ""],
 *			 "contexts": 1, "counts": {COUNTS},
 *			 "context": [{"id": 1, "pid": 456, "comm": "ib_send_bw",
 *				      "memory": "process_vm", "counts": {COUNTS},
 *				      "past": {USAGE}}]}],
 *	    "engines": [{"engine": 0, "cpu_s": 1.5}]}
 *		A GID's place is its index; "" is an empty entry; the list ends with the last one in
 *		use. memory is "process_vm" or "agent". pid is 0 when the process is in a pid
 *		namespace that the daemon cannot see into. COUNTS are the objects alive, in all
 *		contexts or in this one: pds, mrs, mws, cqs, qps (and carried: those whose
 *		messages their program carries), srqs, ahs, xrcds, dms (and dm_bytes), wqs, flows.
 *		past is what QPs have done that were destroyed. USAGE:
 *		messages and bytes that were sent or written, reads and read_bytes (with atomics),
 *		received and received_bytes (that took a receive), retries, rnr_naks (that peers
 *		sent), rnr_delay_ns (that these asked for), no_receive (RNR NAKs to peers), errors;
 *		latency: how long a sample of them took from when the device began with them,
 *		[[ns, count], ..]. What programs carry by themselves is not in it.
 *
 * qp, cq, srq, mr
 *		The QPs, CQs, SRQs or memory regions of all contexts, one by one: likewise a memfd,
 *		with an array. Each has device, context, pid and comm, and
 *	qp:	lqpn, rqpn, type, state, pdn, sends and recvs (posted, not complete; of its own
 *		queues), waits_for (its requester: nothing, rnr, answer, busy, fault, peer),
 *		faults {requester_read, requester_write, responder_read, responder_write}: page
 *		faults so far; faults_pending: how many it is stopped by; by_device: messages;
 *		usage {USAGE}
 *		of those that are connected by the wire also wire {peer, sent, repeated, received,
 *		lost, window}: where to, and packets; window: how many may be under way
 *	cq:	cqn, cqe, waiting (completions that were not polled), armed (no, solicited, next),
 *		channel (the inode of its pipe; 0: none), overrun, users
 *	srq:	srqn, type, pdn, max_wr, posted (receives that wait for a message), limit, users;
 *		cqn, if it has a CQ of its own
 *	mr:	lkey, rkey, mrlen, pdn, access, windows, mappable (by peers); and of on-demand regions odp
 *		{present_pages, faults, ..}: the counters of struct simhcadv_odp_counters
 *
 * cm		The ids of rdma_cm, of all programs: likewise, an array. Each has cm_idn, pid and
 *		comm, device ("" if none is known yet), ps (port space), type, state, src, lqpn;
 *		dst if there is one; cm_state, the communication manager's, if there is a peer;
 *		backlog and waiting (requests that were not fetched) of those that listen. In
 *		status, rdma_cm has counts: channels, ids, listeners, connections, events (not
 *		fetched), timewait.
 *
 * wire		In status, too, null if no device has one. RoCE v2 to other hosts: likewise, an
 *		object. addresses [{address, dropped}]: ours, and what the kernel dropped of what
 *		came there; closed [{address, error}]: those of ours whose UDP port cannot be
 *		had; may_send: --wire-peers, or ""; and counts of packets: sent, unsent,
 *		taken, unclaimed, refused {too_short, icrc, ..}.
 *
 * explain	What has failed of late: likewise, {failures: [..], failed_work_requests}.
 *		"since": N  only failures with a larger id
 *		"run": PID  only those of programs that the process PID has started, which has a
 *		lease; failed_work_requests says how many of theirs failed, without flushes, and
 *		without what another failure explains
 *
 *		Each failure has id, time, kind (send, receive, refusal, no answer, loss,
 *		flush, injection, verb, sleep, event, connection), pid, comm, device, context and text;
 *		cause, if it follows from another one. A verb has verb and errno, count (of refusals
 *		that differ in numbers only) and succeeded_later. Those of work
 *		requests have qpn, qp_type, pdn, peer_qpn, reason, vendor_err, and what fits of
 *		opcode, status, wr_id, psn, length, count, retry_cnt, rnr_retry and timeout; key,
 *		address and bytes, if memory was asked for by a key; then entry is what the key
 *		names, null if nothing: what, key, pdn and qpn, and, if it is the user's own,
 *		address, length and access. was, if the key was a region's of the same protection
 *		domain: address, length, ago_s (since it was deregistered) and now (the key that
 *		the same memory has). queue, of RNR_RETRY_EXC_ERR: context, pid and comm, srqn (0:
 *		the QP's own), posted (receives so far), dropped (that its last reset has dropped), limit_spent (true: the SRQ's limit was not set again after its event), posted_since, next_after_s (seconds until
 *		the next one, if it came within two). sender, of a refusal: pid and comm. obstacle, of "no answer" and
 *		"loss" (a message of an unreliable QP that nobody takes): which, as advice.h knows it, if it is known. The kind "sleep" is a program that sleeps,
 *		and will not wake up; it has how. The kind "event" has event (IBV_EVENT_ without that), count and
 *		qpn, or the number of its CQ, SRQ or port; "connection", of rdma_cm, has how
 *		(rdma_cm/cma.h) and the status or reason that the peer gave.
 *
 * lint		What is legal and probably wrong: likewise, {notes: [..], live}. "run" as above.
 *		Each note has pid, comm, device, kind (as in lint.h), count (of objects) and text,
 *		of the first one. live: contexts that had not ended when it was begun, of which more may be
 *		said.
 *
 * trace	The frames that links carry from now on: with the answer comes the end of a socket
 *		(trace.h). "most_bytes": N of each frame at most.
 *	<- {"ok": true}, and the descriptor
 *
 * inject	Rules of faults (inject_rule.h): likewise a memfd, [{number, rule, met, fired,
 *		run, why}]; run: the process whose lease the rule ends with, or 0; why it has not
 *		fired, or "".
 *		"add": RULE  one more, which ends with this connection if that has a lease
 *	<- {"ok": true, "number": 3}	0: it was to happen at once
 *		"clear": N  rule N ends, or all (0)
 *	<- {"ok": true}
 *
 * stop		The daemon ends. The answer comes before that.
 */
#ifndef SIMHCAD_ADMIN_H
#define SIMHCAD_ADMIN_H

struct admin;
struct daemon;

/* NULL: what is wrong was logged. */
struct admin *admin_open(struct daemon *daemon);
void admin_close(struct admin *admin);

#endif
