/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is legal and probably wrong, told to people: the notes, and what to do about each kind. */
#include <string.h>

#include "report.h"
#include "story.h"

static const struct lint_advice {
	const char *kind, *remedy;
	const char *hardware; /* what a NIC does; NULL: nothing that needs to be said */
	bool last;	      /* after all others, once for all programs: there are many */
} lint_advice[] = {
	{ .kind = "never_polled",
	  .remedy = "Poll it, or give the QPs a CQ that is polled: errors go unseen." },
	{ .kind = "late_receive",
	  .remedy = "Post receives before the peer learns that it may send." },
	{ .kind = "rnr", .remedy = "Post more receives, and again as they are used." },
	{ .kind = "registrations", .remedy = "Register memory once, and use the region again." },
	{ .kind = "cq_size",
	  .remedy = "Make the CQ as large as all that its QPs may have posted." },
	{ .kind = "unsignaled",
	  .remedy = "Signal one send of some, or the send queue stays full." },
	{ .kind = "requests_of_mr",
	  .hardware = "fails those that it has not sent, or has to send again",
	  .remedy = "Poll the completions of its requests before ibv_dereg_mr()." },
	{ .kind = "requests_of_qp",
	  .hardware = "leaves it open whether they arrive; who polls for them polls in vain",
	  .remedy = "Poll the completions first; or modify the QP to ERR, and poll what is "
		    "flushed." },
	{ .kind = "rd_atomic",
	  .hardware = "the responder refuses what is beyond it: REM_INV_REQ_ERR",
	  .remedy = "Make max_rd_atomic at most what the peer has as max_dest_rd_atomic." },
	{ .kind = "own_peer",
	  .hardware = "does the same: what it sends is its own next receive",
	  .remedy = "Give the QP what the other end has sent: its QP number, LID and GID." },
	{ .kind = "not_joined",
	  .hardware =
		  "switches forward nothing of the group to a port that the subnet manager has not "
		  "made a member, and its multicast LID may be another group's",
	  .remedy = "Join it first, by rdma_join_multicast(3) or a request to the SA, and attach "
		    "with the LID that this gives." },
	{ .kind = "ipv6_group",
	  .hardware =
		  "Linux joins groups of IPv4 alone by RoCE v2: rdma_join_multicast() fails with "
		  "errno 524",
	  .remedy = "Join a group of IPv4, such as one of 239.0.0.0/8." },
	{ .kind = "no_fence",
	  .hardware = "may send the bytes as they were before the read",
	  .remedy = "Set IBV_SEND_FENCE, or wait for the completion of the read or atomic." },
	{ .kind = "early_inline",
	  .hardware = "copies inline data when they are posted as well, and sends the old bytes",
	  .remedy = "Poll the completion of the read or atomic first: IBV_SEND_FENCE does not "
		    "help inline data." },
	{ .kind = "overwritten",
	  .remedy = "Give each receive bytes of its own until its completion was polled." },
	{ .kind = "changed",
	  .hardware = "may send the old bytes, the new ones, or some of each",
	  .remedy = "Leave a buffer as it is until its completion, or that of a later send, was "
		    "polled." },
	{ .kind = "other_pd",
	  .hardware = "ConnectX sends it as well, as each request has a copy of the address; NICs "
		      "that look at the handle fail it",
	  .remedy = "Create address handles in the PD of the QPs that send by them." },
	{ .kind = "no_sge",
	  .hardware = "sends nothing as well, and completes it with SUCCESS",
	  .remedy = "Set num_sge to how many entries of sg_list there are." },
	{ .kind = "srq_limit",
	  .hardware = "ignores it as well (mlx5, ibv_create_srq(3)): no event ever comes",
	  .remedy = "Set it by ibv_modify_srq() with IBV_SRQ_LIMIT, and anew after each event." },
	{ .kind = "unknown_access",
	  .hardware = "ConnectX ignores it; rdma_rxe refuses the QP with EINVAL",
	  .remedy = "Zero struct ibv_qp_attr before it is filled in, and use IBV_ACCESS flags." },
	{ .kind = "path_mtu",
	  .hardware = "refuses it with EINVAL where the port has less: 1024 if the MTU of its "
		      "interface is 1500",
	  .remedy = "Use at most active_mtu of ibv_query_port(), of both ends; --mtu 1024 shows "
		    "what happens otherwise." },
	{ .kind = "forked",
	  .hardware = "does not see it: the child has a copy of the queues, or after "
		      "ibv_fork_init() none, which is a signal",
	  .remedy = "Have the child open the device itself, and make what it uses; or leave verbs "
		    "to the parent." },
	{ .kind = "threads",
	  .hardware = "the driver takes no lock there: requests and completions are lost or come "
		      "twice, or the program crashes",
	  .remedy = "Have one thread at a time use it, by a lock of the program's; or leave out "
		    "the thread domain, or IBV_CREATE_CQ_ATTR_SINGLE_THREADED." },
	{ .kind = "memlock",
	  .hardware = "pins what is registered, so ibv_reg_mr() fails with ENOMEM",
	  .remedy = "Raise the limit (ulimit -l, limits.conf(5), LimitMEMLOCK of systemd.exec(5), "
		    "docker's --ulimit memlock), or register less." },
	{ .kind = "file_mapping",
	  .hardware =
		  "ibv_reg_mr() fails with EFAULT on Linux 6.5 and newer, which cannot tell when "
		  "a NIC writes to pages of a file; before that, what it writes may be lost",
	  .remedy = "Map a file of tmpfs or hugetlbfs, memfd_create(2) or MAP_PRIVATE memory, or "
		    "register it with IBV_ACCESS_ON_DEMAND." },
	{ .kind = "empty_region",
	  .hardware = "ibv_reg_mr() fails with EINVAL, as the kernel finds no page to pin; with an "
		      "address inside of a page it finds one, and succeeds",
	  .remedy = "Register no memory for which there is no length: a message of 0 bytes needs "
		    "no region, and no SGE." },
	{ .kind = "moved_in_use",
	  .hardware = "pins the pages where they are, and loses nothing",
	  .remedy = "Run it without --shared-memory, or have no thread write to memory while it "
		    "is registered or deregistered." },
	{ .kind = "moved_and_gone",
	  .hardware = "goes on with the pages that were registered, which nobody else has",
	  .remedy = "Deregister a region before its memory goes, or run it without "
		    "--shared-memory." },
	{ .kind = "stale_memory",
	  .hardware = "goes on with the pages that were registered, which nobody else has",
	  .remedy =
		  "Deregister a region before its memory goes, or make it IBV_ACCESS_ON_DEMAND." },
	{ .kind = "unused_qp",
	  .remedy = "Make QPs when they are needed; or is the peer told another number?" },
	{ .kind = "unused_access",
	  .remedy = "Leave the right out: who has the key can use it.",
	  .last = true },
	{ .kind = "not_destroyed",
	  .remedy = "Destroy what was made, so that what leaks can be told from it.",
	  .last = true },
};

static const struct lint_advice *lint_advice_on(const char *kind)
{
	static const struct lint_advice none = { .kind = "", .remedy = "" };

	for (size_t i = 0; i < sizeof(lint_advice) / sizeof(lint_advice[0]); i++)
		if (!strcmp(lint_advice[i].kind, kind))
			return &lint_advice[i];
	return &none;
}

/* Whether it is of that kind, and of that process (0: of any). */
static bool is_of(const json_t *note, const char *kind, long long pid)
{
	return !strcmp(report_text(note, "kind"), kind) &&
	       (!pid || report_number(note, "pid") == pid);
}

/* How many objects there are of the kind in the notes after this one that are told with it. */
static long long count_rest(const json_t *notes, size_t first, long long pid)
{
	const char *kind = report_text(json_array_get(notes, first), "kind");
	long long count = 0;

	for (size_t i = first + 1; i < json_array_size(notes); i++)
		if (is_of(json_array_get(notes, i), kind, pid))
			count += report_number(json_array_get(notes, i), "count");
	return count;
}

/* Whether one of its kind and process is in the notes before it. */
static bool is_repeated(const json_t *notes, size_t index, long long pid)
{
	const char *kind = report_text(json_array_get(notes, index), "kind");

	for (size_t i = 0; i < index; i++)
		if (is_of(json_array_get(notes, i), kind, pid))
			return true;
	return false;
}

static void print_lint(FILE *out, const json_t *note, long long count,
		       const struct lint_advice *advice)
{
	fputs("lint: ", out);
	story_print_who(out, note);
	fprintf(out, ", %s: %s", report_text(note, "kind"), report_text(note, "text"));
	if (count > 1)
		fprintf(out, " (and %lld more)", count - 1);
	if (advice->hardware)
		fprintf(out, "\n  hardware:   %s", advice->hardware);
	fprintf(out, "\n  try:        %s\n", advice->remedy);
}

size_t story_print_lint(FILE *out, const json_t *report, long long pid)
{
	const json_t *notes = json_object_get(report, "notes");
	size_t told = 0;

	for (int last = 0; last < 2; last++)
		for (size_t i = 0; i < json_array_size(notes); i++) {
			const json_t *note = json_array_get(notes, i);
			const struct lint_advice *advice =
				lint_advice_on(report_text(note, "kind"));
			long long count = report_number(note, "count");

			if (advice->last != last || (pid && report_number(note, "pid") != pid) ||
			    (last && is_repeated(notes, i, pid)))
				continue;
			told++;
			if (last)
				count += count_rest(notes, i, pid);
			print_lint(out, note, count, advice);
		}
	return told;
}
