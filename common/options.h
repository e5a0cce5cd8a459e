/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Options. One table (option_table.c) describes all of them; the command line, the configuration
 * file,
 * --help and the string that identifies a daemon's options are made from it.
 *
 *   settings  a value for each option, and which of them were given
 *   layer     what one source gives: settings for everything, and settings for single devices
 *   options   the outcome, after the layers were laid over one another
 *
 * Later layers win: defaults, the file's general part, its [device NAME] section, the command
 * line's general part, its --device NAME.
 */
#ifndef SIMHCAD_OPTIONS_H
#define SIMHCAD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTIONS_MAX_DEVICES 32
#define OPTIONS_DEVICE_NAME 20 /* bytes with the NUL: what libibumad has room for */
#define OPTIONS_TEXT 256       /* bytes of an explanation or of a value printed */

enum memory_mode {
	MEMORY_AUTO,	   /* process_vm where the kernel allows it, else an agent */
	MEMORY_PROCESS_VM, /* refuse clients that process_vm cannot reach */
	MEMORY_AGENT,	   /* an agent for all clients */
	MEMORY_SHARED,	   /* as MEMORY_AUTO, and all devices have shared_memory */
};

struct settings {
	uint64_t given; /* bit n: option n of the table was given */

	/* of the daemon */
	char *runtime_dir;
	char *config;
	char *log_file;
	char *devices;		 /* "2" or "simhca0,simhca4" */
	char *device_name;	 /* of the first of a number of them; NULL: the profile's */
	uint32_t log_level;	 /* enum simhca_log_level */
	uint32_t engines;	 /* 0: by the number of CPUs */
	uint32_t engine_spin;	 /* us; UINT32_MAX: by the number of CPUs */
	uint32_t memory;	 /* enum memory_mode */
	uint32_t fault_workers;	 /* 0: 4 */
	char *wire_peers;	 /* NULL: everybody */
	uint32_t wire_rxe_flush; /* the ICRC of FLUSH is that of Linux's rxe */
	uint32_t daemonize;
	uint32_t captive;
	uint32_t ready_fd; /* UINT32_MAX: none */
	uint32_t help;
	uint32_t version;

	/* of a device */
	char *netdev;
	uint32_t profile;      /* as which NIC it presents itself (profile.h) */
	uint32_t numa_node;    /* UINT32_MAX: none */
	uint32_t efa;	       /* Amazon's driver opens it, else the project's provider */
	uint32_t efa_caps;     /* its generation: 1 to 4 */
	uint32_t efa_mtu;      /* bytes of a message; 0: as many as there can be */
	uint32_t efa_rdma;     /* of an RDMA operation; likewise */
	uint32_t srd_shuffled; /* its messages pass each other on purpose */
	uint32_t infiniband;
	uint32_t wire;		 /* RoCE v2 to addresses elsewhere */
	uint32_t mtu;		 /* bytes */
	uint64_t node_guid;	 /* 0: derived from host name, runtime directory and device */
	uint64_t sys_image_guid; /* 0: the node GUID */
	uint32_t lid;		 /* InfiniBand; 0: derived from the device's position */
	uint32_t sm_off;	 /* InfiniBand: no subnet manager */
	uint32_t mw_type_2a;	 /* type 2 memory windows are of type 2A; else 2B */
	uint32_t event_at_arm;	 /* arming a CQ that holds completions raises an event */
	uint32_t fast_path;	 /* programs may run steps of their QPs */
	uint32_t shared_memory;	 /* programs move what they register into files */
	uint32_t slot_data;	 /* small messages may stay in their receives' slots */
	uint32_t fault_latency;	 /* us */
	uint32_t odp_checks;	 /* on-demand pages are looked for at each access */
	uint32_t max_qp, max_cq, max_srq, max_mr, max_mw, max_pd, max_ah;
	uint32_t max_qp_wr, max_sge, max_inline, max_cqe;
	uint32_t max_dm_size; /* bytes */
};

struct named_settings {
	char name[OPTIONS_DEVICE_NAME];
	struct settings settings;
};

struct layer {
	struct settings general;
	struct named_settings devices[OPTIONS_MAX_DEVICES];
	unsigned int num_devices;
};

struct options {
	struct settings daemon;
	struct named_settings devices[OPTIONS_MAX_DEVICES]; /* complete: every option has a value */
	unsigned int num_devices;
	char *normalised; /* as a command line, without what concerns the run alone */
};

/*
 * Set one option of a layer. device NULL: in general. -1 and a text like "must be on or off"
 * when it does not exist here or its value is not accepted.
 */
int layer_set(struct layer *layer, const char *device, const char *name, const char *value,
	      char error[OPTIONS_TEXT]);
void layer_free(struct layer *layer);

/*
 * The command line and the configuration file. Returns -1 when the daemon shall run, else the
 * exit status: --help and --version were served, or what is wrong was said on standard error.
 */
int options_parse(int argc, char **argv, struct options *options);
void options_free(struct options *options);

#endif
