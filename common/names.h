/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The names that verbs programmers know numbers by, without their prefixes. */
#ifndef SIMHCAD_NAMES_H
#define SIMHCAD_NAMES_H

#include <stdint.h>

/* "?" for a number that has none. */
const char *name_of_qp_type(uint32_t type);
const char *name_of_srq_type(uint32_t type);
const char *name_of_qp_state(uint32_t state);
const char *name_of_wait(uint32_t wait);       /* enum simhca_wait */
const char *name_of_opcode(uint32_t opcode);   /* enum simhca_wr_opcode */
const char *name_of_status(uint32_t status);   /* enum simhca_wc_status */
const char *name_of_event(uint32_t type);      /* enum ibv_event_type */
const char *name_of_command(uint32_t command); /* enum simhca_cmd */
const char *name_of_reason(uint32_t reason);
/* What it tells of; NULL: of no failure. */
const char *text_of_event(uint32_t type);

/* Rights with bars between, or "0". */
#define NAMES_OF_ACCESS 192
void names_of_access(uint32_t access, char text[NAMES_OF_ACCESS]);

#endif
