/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The device tree: what programs see of the devices in /sys and /dev, as plain files below
 * <runtime directory>/tree.
 *
 *	dev/infiniband/uverbsN                       the device's socket (session.h)
 *	sys/devices/simhca/<name>/                   what stands for the PCI device, or, with a
 *	sys/devices/pci5343:NN/5343:NN:00.0/         profile, its PCI function; of an EFA
 *	                                             device simhca/<PCI address>/; below it
 *	    infiniband/<name>/                       the device, its port and GIDs
 *	    infiniband_verbs/uverbsN/                ibdev, dev, abi_version
 *	sys/class/infiniband/<name>                  symbolic links to these two
 *	sys/class/infiniband_verbs/uverbsN
 *	sys/class/pci_bus/5343:NN
 *	sys/bus/pci/devices/5343:NN:00.0                with a profile
 *	dev/infiniband/umadN, issmN                  on InfiniBand: sockets for MADs (umad.h)
 *	    infiniband_mad/umadN/, issmN/            beside infiniband_verbs: ibdev, port, dev
 *	sys/class/infiniband_mad/                    abi_version, and links to these
 *	proc/sys/net/rdma_ucm/max_backlog
 *	netlink/rdma                                 the socket of RDMA netlink (nl_server.h)
 *
 * sys appears complete, by a rename, when the sockets listen. From then on files are only
 * rewritten in place, nothing is added or removed: libibverbs takes a directory of a device that
 * has changed for a new device.
 */
#ifndef SIMHCAD_DEVICE_TREE_H
#define SIMHCAD_DEVICE_TREE_H

#include "base/rundir.h"
#include "profile.h"
#include "simhca-device.h"

#define DEVICE_TREE_RDMA_CM_MAJOR 10 /* of miscellaneous devices */
#define DEVICE_TREE_RDMA_CM_MINOR 58
#define DEVICE_TREE_MAJOR 231	 /* the kernel's for uverbs */
#define DEVICE_TREE_MINOR 192	 /* of uverbs0 */
#define DEVICE_TREE_UMAD_MINOR 0 /* of umad0, and of issm0, with that major number */
#define DEVICE_TREE_ISSM_MINOR 64
#define DEVICE_TREE_ABI 1	    /* of the device, which the provider matches */
#define DEVICE_TREE_COUNTERS_MS 200 /* how old what a file of counters says may be */

struct tree_device {
	unsigned int number; /* N of uverbsN */
	const char *name;
	const char *netdev;
	bool efa;
	char pci[16]; /* of EFA: its address on the bus */
	const struct simhca_devmem *memory;
	const struct profile *profile;
	uint32_t numa_node; /* UINT32_MAX: none */
	bool failing;	    /* what is wrong has been logged, and is not again */
};

/* Whether the host has this NUMA node. */
bool device_tree_has_node(uint32_t node);
/* These return -1 after logging what is wrong. */
int device_tree_create(const struct rundir *rundir);
int device_tree_add(const struct rundir *rundir, const struct tree_device *device);
int device_tree_publish(const struct rundir *rundir);
/* The port's state or GIDs have changed. */
int device_tree_update(const struct rundir *rundir, const struct tree_device *device);
/* The files of counters that change from before to stats. */
int device_tree_count(const struct rundir *rundir, const struct tree_device *device,
		      const uint64_t stats[SIMHCA_STATS], const uint64_t before[SIMHCA_STATS]);

#endif
