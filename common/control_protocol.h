/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools and the daemon have to agree on; simhcad/admin/admin.h has what each command means. */
#ifndef SIMHCA_CONTROL_PROTOCOL_H
#define SIMHCA_CONTROL_PROTOCOL_H

/*
 * Grows when what there is changes its meaning, or trace_frame.h its layout (scripts/check-layouts looks for the
 * latter). That something is added to JSON does not count.
 */
#define CONTROL_VERSION 2

#define CONTROL_COMMANDS(COMMAND)                                                                  \
	COMMAND(LEASE, "lease")                                                                    \
	COMMAND(STATUS, "status")                                                                  \
	COMMAND(QP, "qp")                                                                          \
	COMMAND(CQ, "cq")                                                                          \
	COMMAND(SRQ, "srq")                                                                        \
	COMMAND(WIRE_HOSTS, "wire-hosts")                                                          \
	COMMAND(MR, "mr")                                                                          \
	COMMAND(CM, "cm")                                                                          \
	COMMAND(WIRE, "wire")                                                                      \
	COMMAND(EXPLAIN, "explain")                                                                \
	COMMAND(LINT, "lint")                                                                      \
	COMMAND(TRACE, "trace")                                                                    \
	COMMAND(INJECT, "inject")                                                                  \
	COMMAND(STOP, "stop")

enum control_command {
#define COMMAND(id, name) CONTROL_##id,
	CONTROL_COMMANDS(COMMAND)
#undef COMMAND
		CONTROL_COUNT
};

extern const char *const control_names[CONTROL_COUNT];

#endif
