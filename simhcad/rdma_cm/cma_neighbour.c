/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Neighbours: whether the host that packets to an address go to first, itself or a gateway, has answered ARP or NDP. Linux's
 * rdma_cm resolves an address when that is known, as it has to know the link address. Here the kernel that sends the packets
 * does, so it is asked for what it knows, and has to be made to ask.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cma.h"
#include "device/netif.h"

#define ANSWER 4096 /* bytes; of a route or a neighbour there are some hundred */
#define HAS_ANSWERED (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct hop {
	uint32_t interface;
	uint8_t family;
	uint8_t size; /* of address; 0: there is none */
	uint8_t address[sizeof(struct in6_addr)];
};

union answer {
	struct nlmsghdr head;
	uint8_t bytes[ANSWER];
};

/* Has the kernel answer at once; frees the question, which can be NULL. 0, or why there is no answer of this type. */
static int ask(struct nl_msg *question, union answer *answer, uint16_t type)
{
	const struct nlmsgerr *error;
	const struct nlmsghdr *head = question ? nlmsg_hdr(question) : NULL;
	int fd = head ? socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) : -1;
	ssize_t size = -1;

	if (fd >= 0 && send(fd, head, head->nlmsg_len, 0) >= 0)
		size = recv(fd, answer, sizeof(*answer), MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
	nlmsg_free(question);
	if (size < (ssize_t)sizeof(answer->head) || !nlmsg_ok(&answer->head, (int)size))
		return EIO;
	error = nlmsg_data(&answer->head);
	if (answer->head.nlmsg_type == NLMSG_ERROR &&
	    nlmsg_datalen(&answer->head) >= (int)sizeof(*error) && error->error)
		return -error->error;
	return answer->head.nlmsg_type == type ? 0 : EIO;
}

static void set_address(struct hop *hop, uint8_t family, const void *address, int size)
{
	hop->family = family;
	hop->size = (uint8_t)(size < (int)sizeof(hop->address) ? size : (int)sizeof(hop->address));
	memcpy(hop->address, address, hop->size);
}

static void set_ip(struct hop *hop, const union cma_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		set_address(hop, AF_INET, &addr->in.sin_addr, sizeof(addr->in.sin_addr));
	else
		set_address(hop, AF_INET6, &addr->in6.sin6_addr, sizeof(addr->in6.sin6_addr));
}

static struct nl_msg *question_of_route(const struct hop *from, const struct hop *to)
{
	struct rtmsg route = { .rtm_family = to->family,
			       .rtm_dst_len = (uint8_t)(8 * to->size),
			       .rtm_src_len = (uint8_t)(8 * from->size) };
	struct nl_msg *question = nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST);

	if (question && !nlmsg_append(question, &route, sizeof(route), NLMSG_ALIGNTO) &&
	    !nla_put(question, RTA_DST, to->size, to->address) &&
	    (!from->size || !nla_put(question, RTA_SRC, from->size, from->address)) &&
	    !nla_put_u32(question, RTA_OIF, from->interface))
		return question;
	nlmsg_free(question);
	return NULL;
}

/* Where packets from the id's device go first. False: to nobody else, or the kernel does not say. */
static bool find_hop(const struct cma_id *id, struct hop *hop)
{
	struct netif *netif = id->file->cma->daemon->netif;
	const struct rtmsg *route;
	const struct nlattr *interface, *gateway, *via;
	struct interface own;
	struct hop from = { 0 };
	union answer answer;

	if (!netif_get(netif, id->device->options->settings.netdev, &own))
		return false;
	from.interface = own.index;
	if (!cma_addr_is_zero(&id->src))
		set_ip(&from, &id->src);
	set_ip(hop, &id->dst);
	if (ask(question_of_route(&from, hop), &answer, RTM_NEWROUTE) ||
	    nlmsg_datalen(&answer.head) < (int)sizeof(*route))
		return false;
	route = nlmsg_data(&answer.head);
	interface = nlmsg_find_attr(&answer.head, sizeof(*route), RTA_OIF);
	gateway = nlmsg_find_attr(&answer.head, sizeof(*route), RTA_GATEWAY);
	via = nlmsg_find_attr(&answer.head, sizeof(*route), RTA_VIA);
	if (route->rtm_type != RTN_UNICAST || !interface)
		return false;
	hop->interface = nla_get_u32(interface);
	if (gateway)
		set_address(hop, hop->family, nla_data(gateway), nla_len(gateway));
	if (via && nla_len(via) > (int)sizeof(struct rtvia)) { /* of the other family */
		const struct rtvia *its = nla_data(via);

		set_address(hop, (uint8_t)its->rtvia_family, its->rtvia_addr,
			    nla_len(via) - (int)sizeof(*its));
	}
	return netif_asks_neighbours(netif, hop->interface);
}

/* What the kernel knows of a neighbour, by NUD_ flags; less than 0: it does not say, as before Linux 5.0. */
static int state_of(const struct hop *hop)
{
	struct ndmsg neighbour = { .ndm_family = hop->family, .ndm_ifindex = (int)hop->interface };
	struct nl_msg *question = nlmsg_alloc_simple(RTM_GETNEIGH, NLM_F_REQUEST);
	union answer answer;
	int ret;

	if (question && (nlmsg_append(question, &neighbour, sizeof(neighbour), NLMSG_ALIGNTO) ||
			 nla_put(question, NDA_DST, hop->size, hop->address))) {
		nlmsg_free(question);
		return -ENOMEM;
	}
	ret = ask(question, &answer, RTM_NEWNEIGH);
	if (ret == ENOENT)
		return NUD_NONE;
	if (ret || nlmsg_datalen(&answer.head) < (int)sizeof(neighbour))
		return -EIO;
	memcpy(&neighbour, nlmsg_data(&answer.head), sizeof(neighbour));
	return neighbour.ndm_state;
}

/* Whoever gets a datagram of no bytes drops it; before the kernel can send it the neighbour has to answer. */
static bool send_nothing(const struct cma_id *id)
{
	const char *failed;
	int fd = cma_route_socket(id, &failed);
	bool sent = fd >= 0 && !send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (fd >= 0)
		close(fd);
	return sent;
}

int cma_neighbour(const struct cma_id *id, struct simhca_why *why)
{
	char to[CMA_ADDR_TEXT], at[INET6_ADDRSTRLEN];
	struct hop hop = { 0 };
	int state;

	if (!find_hop(id, &hop))
		return 0;
	state = state_of(&hop);
	if (state < 0 || state & HAS_ANSWERED)
		return 0;
	/* One that is being asked has the datagram already. One that cannot be sent is told of when the id connects. */
	if (!(state & NUD_INCOMPLETE) && !send_nothing(id))
		return 0;
	return -simhca_why(why, ENODATA,
			   "%s on %s, where packets to %s go first, does not answer %s",
			   inet_ntop(hop.family, hop.address, at, sizeof(at)),
			   id->device->options->settings.netdev, cma_addr_print(&id->dst, to),
			   hop.family == AF_INET ? "ARP" : "NDP");
}
