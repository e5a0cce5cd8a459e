/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP is attached to a destination when the first datagram for it is posted. Who cannot be
 * attached has a place as well, so that it is not tried each time; and gives it to another when
 * there are no more.
 */
#include <stdlib.h>
#include <string.h>

#include "attached.h"
#include "destinations.h"

struct destination {
	struct simhca_av av;
	uint32_t qpn;
	struct shca_attached *attached; /* or NULL */
	uint32_t tries, next_try;	/* posts between attempts, and to the next one */
};

struct shca_destinations {
	struct destination one[SIMHCA_MAX_DESTINATIONS];
	uint32_t count;
	uint32_t oldest; /* that may give its place */
	/* of those that are attached */
	struct simhca_step *step[SIMHCA_MAX_DESTINATIONS];
	uint32_t num_steps;
	uint32_t process; /* shca_process() of who began */
};

static void list_steps(struct shca_destinations *all)
{
	all->num_steps = 0;
	for (uint32_t i = 0; i < all->count; i++)
		if (all->one[i].attached)
			all->step[all->num_steps++] = &all->one[i].attached->step;
}

void shca_destinations_end(struct shca_qp *qp)
{
	struct shca_destinations *all = qp->destinations;

	for (uint32_t i = 0; all && i < all->count; i++)
		shca_detach(all->one[i].attached);
	free(all);
	qp->destinations = NULL;
}

void shca_destinations_begin(struct shca_qp *qp)
{
	shca_destinations_end(qp);
	qp->destinations = calloc(1, sizeof(*qp->destinations));
	if (qp->destinations)
		qp->destinations->process = shca_process();
}

/* The place of whom the WQE is for: it may be new. NULL: there is no room. */
static struct destination *place_of(struct shca_destinations *all,
				    const struct simhca_send_wqe *wqe)
{
	struct destination *place = NULL;

	for (uint32_t i = 0; i < all->count; i++)
		if (all->one[i].qpn == wqe->ud.dest_qpn &&
		    !memcmp(&all->one[i].av, &wqe->ud.av, sizeof(wqe->ud.av)))
			return &all->one[i];
	if (all->count < SIMHCA_MAX_DESTINATIONS)
		place = &all->one[all->count++];
	for (uint32_t i = 0; i < SIMHCA_MAX_DESTINATIONS && !place; i++) {
		struct destination *one = &all->one[all->oldest++ % SIMHCA_MAX_DESTINATIONS];

		if (!one->attached)
			place = one;
	}
	if (place)
		*place = (struct destination){ .av = wqe->ud.av,
					       .qpn = wqe->ud.dest_qpn,
					       .tries = SHCA_FIRST_TRY,
					       .next_try = SHCA_FIRST_TRY };
	return place;
}

/* Whether it is attached to whom the WQE is for, now. */
static bool try_to_attach(struct shca_qp *qp, const struct simhca_send_wqe *wqe)
{
	struct destination *to = place_of(qp->destinations, wqe);

	if (!to || to->attached || --to->next_try)
		return false;
	to->attached = shca_attach(qp, wqe);
	if (to->tries < SHCA_LAST_TRY)
		to->tries *= 2;
	to->next_try = to->tries;
	list_steps(qp->destinations);
	return to->attached;
}

static void drop_ended(struct shca_destinations *all)
{
	for (uint32_t i = 0; i < all->count; i++) {
		struct destination *to = &all->one[i];

		if (!to->attached || !shca_has_ended(to->attached))
			continue;
		shca_detach(to->attached);
		to->attached = NULL;
		to->next_try = to->tries;
	}
	list_steps(all);
}

/* Regions of theirs that are to be mapped, and those that are gone. */
static void look_at_regions(struct shca_qp *qp)
{
	struct shca_destinations *all = qp->destinations;

	for (uint32_t i = 0; i < all->count; i++) {
		struct destination *to = &all->one[i];

		if (!to->attached)
			continue;
		shca_mapped_look(&to->attached->mapped);
		if (to->attached->mapped.step.wanted.key)
			shca_mapped_want(qp, &to->attached->mapped, &to->av, to->qpn);
	}
}

/* False: somebody has to carry the rest; *unknown: the next is for one who is not attached. */
static bool run(struct shca_qp *qp, const struct simhca_send_wqe **unknown)
{
	struct shca_destinations *all = qp->destinations;

	bool done = all->num_steps && simhca_step_datagrams(all->step, all->num_steps, unknown);

	if (!done)
		drop_ended(all);
	look_at_regions(qp);
	return done;
}

bool shca_destinations_run(struct shca_qp *qp)
{
	const struct simhca_send_wqe *unknown = shca_sq_wqe(&qp->sq, qp->sq.head - 1);
	struct shca_destinations *all = qp->destinations;

	/* After a fork the child's memory is another. */
	if (!all || all->process != shca_process())
		return false;
	return run(qp, &unknown) || (unknown && try_to_attach(qp, unknown) && run(qp, &unknown));
}
