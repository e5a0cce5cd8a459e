/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Atomics by the fast path, and how all who write to that process's memory keep off them
 * (libsimhca/queue/writers.h, libsimhca/dma/exclusive.c).
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fabric.h"
#include "dma/dma.h"
#include "fastpath_scene.h"
#include "simhca-clock.h"

#define HIGH 32 /* bits of a word that are written; the lower ones are added to */

/* Of two pairs on memory with atomics: the first one's QP is attached. */
struct scene {
	struct world *world;
	struct pair *pair;
	struct simhca_step step;
	uint64_t *word;	  /* in b's memory */
	uint64_t *result; /* in a's */
};

static struct scene scene_new(struct world *world)
{
	struct scene scene = { .world = world };

	fastpath_begin_atomics(world);
	scene.pair = fastpath_rc_pair(world, false);
	scene.step = fastpath_attach(&scene.pair->a);
	scene.word = (uint64_t *)scene.pair->b.mr->addr;
	scene.result = (uint64_t *)(scene.pair->a.mr->addr + 4096);
	return scene;
}

static void put(const struct pair *pair, uint8_t opcode, uint32_t at, uint64_t compare_add,
		uint64_t swap)
{
	struct simhca_sge to = sge(pair->a.mr, at, 8);

	qp_put(pair->a.qp, &(struct wr){ .opcode = opcode,
					 .flags = SIGNALED,
					 .sges = &to,
					 .num_sge = 1,
					 .remote_addr = pair->b.mr->iova,
					 .rkey = pair->b.mr->rkey,
					 .compare_add = compare_add,
					 .swap = swap });
}

static void put_write(const struct scene *scene, uint64_t value)
{
	*(uint64_t *)scene->pair->a.mr->addr = value;
	put(scene->pair, SIMHCA_WR_RDMA_WRITE, 0, 0, 0);
}

static void put_add(const struct scene *scene, uint64_t add)
{
	put(scene->pair, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 4096, add, 0);
}

/* From now on the pair's remote memory is the scene's. */
static void share(struct pair *pair, const struct scene *scene)
{
	struct client *client = pair->b.client;

	pair->b.mr = mr_over(client, client->pd, (uint8_t *)scene->word, 4096,
			     (uintptr_t)scene->word, ALL_ACCESS);
}

static void device_adds(const struct scene *scene, struct pair *pair, uint64_t add)
{
	share(pair, scene);
	put(pair, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 4096, add, 0);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
}

/* The device does it, but perhaps later. */
static void completes_in_time(struct pair *pair)
{
	struct simhca_cqe cqe;
	bool done = false;

	for (int i = 0; i < 10000 && !done; i++) {
		advance(pair->a.world, 20000);
		done = cq_poll(pair->a.send_cq, &cqe);
	}
	assert_true(done && !cqe.status);
}

/* What they do, in a program. */
static void what_they_find_and_leave(void **state)
{
	struct scene scene = scene_new(*state);
	const struct fastpath_atomic *rows = fastpath_atomics;
	uint64_t before = *scene.word = 5;

	for (size_t i = 0; i < FASTPATH_ATOMICS; i++) {
		put(scene.pair, rows[i].opcode, 4096, rows[i].compare_add, rows[i].swap);
		assert_true(simhca_step(&scene.step));
		fastpath_completes(scene.pair->a.send_cq);
		assert_true(*scene.result == before && *scene.word == rows[i].leaves);
		before = rows[i].leaves;
	}
	*scene.result = 1234567;
	put(scene.pair, SIMHCA_WR_ATOMIC_WRITE, 4096, 0, 0);
	assert_true(simhca_step(&scene.step));
	assert_true(*scene.word == 1234567);
	assert_true(all_bytes(scene.pair->b.mr->addr + 8, 64, 0));
	assert_int_equal(scene.step.fastpath->messages, FASTPATH_ATOMICS + 1);
	fastpath_detach(&scene.step);
}

/* What no atomic may be is the device's to refuse. */
static void what_is_refused(void **state)
{
	struct scene scene = scene_new(*state);
	struct mr *unnamed = mr_new(scene.pair->b.client, 64,
				    ALL_ACCESS & ~(uint32_t)SIMHCA_ACCESS_REMOTE_ATOMIC);
	const struct {
		uint64_t at;
		uint32_t rkey, length;
		enum simhca_slow_reason why;
	} rows[] = {
		{ scene.pair->b.mr->iova + 4, scene.pair->b.mr->rkey, 8, SIMHCA_SLOW_REQUEST },
		{ scene.pair->b.mr->iova, scene.pair->b.mr->rkey, 4, SIMHCA_SLOW_REQUEST },
		{ unnamed->iova, unnamed->rkey, 8, SIMHCA_SLOW_MEMORY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pair *pair = fastpath_rc_pair(*state, false);
		struct simhca_step step = fastpath_attach(&pair->a);
		struct simhca_sge to = sge(pair->a.mr, 0, rows[i].length);

		qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
						 .flags = SIGNALED,
						 .sges = &to,
						 .num_sge = 1,
						 .remote_addr = rows[i].at,
						 .rkey = rows[i].rkey,
						 .compare_add = 1 });
		assert_false(simhca_step(&step));
		assert_int_equal(step.fastpath->handed[rows[i].why], 1);
		fastpath_detach(&step);
	}
	assert_int_equal(*scene.word, 0);
	fastpath_detach(&scene.step);
}

/* While an atomic is under way nobody writes there, and while somebody writes it waits. */
static void who_keeps_off(void **state)
{
	struct scene scene = scene_new(*state);
	struct pair *other = fastpath_rc_pair(*state, false);
	struct simhca_writers *there = scene.step.peer.writing.there;
	struct simhca_writer *of_other = &there->writer[there->count - 1];
	struct simhca_step step = fastpath_attach(&other->a);
	struct simhca_cqe cqe;

	/* Another program's atomic. */
	assert_true(simhca_writers_exclude(there, SIMHCA_OWNER_PROGRAM | other->a.qp->qpn));
	put_write(&scene, 7);
	assert_false(simhca_step(&scene.step));
	assert_int_equal(scene.step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	assert_int_equal(scene.step.peer.writing.mine->at_work, 0);
	assert_int_equal(*scene.word, 0);
	simhca_writers_admit(there, SIMHCA_OWNER_PROGRAM | other->a.qp->qpn);
	assert_true(simhca_step(&scene.step));
	fastpath_completes(scene.pair->a.send_cq);
	assert_int_equal(*scene.word, 7);

	/* Its write; also that of the device. */
	for (int i = 0; i < 2; i++) {
		_Atomic uint32_t *at_work = i ? &there->device : &of_other->at_work;

		atomic_store(at_work, 1);
		put_add(&scene, 1);
		assert_false(simhca_step(&scene.step));
		assert_int_equal(scene.step.fastpath->handed[SIMHCA_SLOW_COPY], 2 + i);
		assert_int_equal(there->holder, 0);
		assert_int_equal(*scene.word, 7 + i);
		atomic_store(at_work, 0);
		assert_true(simhca_step(&scene.step));
		fastpath_completes(scene.pair->a.send_cq);
		assert_int_equal(*scene.word, 8 + i);
	}

	/* The device's atomic waits for both. */
	step = fastpath_attach(&other->a);
	of_other = step.peer.writing.mine;
	for (int i = 0; i < 2; i++) {
		_Atomic uint32_t *word = i ? &there->holder : &of_other->at_work;
		struct pair *third = fastpath_rc_pair(*state, false);

		atomic_store(word, 1u << 30);
		device_adds(&scene, third, 1);
		run_until_idle(*state);
		assert_false(cq_poll(third->a.send_cq, &cqe));
		assert_int_equal(*scene.word, 9 + i);
		if (i) /* it is handed over */
			simhca_writers_admit(there, 1u << 30);
		assert_int_equal(there->holder, SIMHCA_OWNER_DEVICE);
		atomic_store(&of_other->at_work, 0);
		completes_in_time(third);
		assert_int_equal(*scene.word, 10 + i);
		assert_int_equal(there->holder, 0);
	}
	fastpath_detach(&step);
	fastpath_detach(&scene.step);
}

/* Another, who comes before this one of its stores, finds nobody and begins an atomic. */
static struct {
	struct scene *scene;
	unsigned int stores;
	bool began;
	uint64_t found;
} between;

static void begin_another(void)
{
	struct simhca_writing *writing = &between.scene->step.peer.writing;
	uint32_t nobody = 0;

	if (!between.stores || --between.stores || writing->mine->at_work)
		return;
	between.began = atomic_compare_exchange_strong(&writing->there->holder, &nobody, 77);
	between.found = *between.scene->word;
}

static void who_comes_between(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_ATOMIC_FETCH_AND_ADD, SIMHCA_WR_RDMA_WRITE };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		unsigned int kept_off = 0;

		for (unsigned int store = 1; store < 20; store++) {
			struct scene scene;
			bool done;

			fastpath_setup(state);
			scene = scene_new(*state);
			memset(&between, 0, sizeof(between));
			between.scene = &scene;
			between.stores = store;
			*(uint64_t *)scene.pair->a.mr->addr = 1;
			put(scene.pair, opcodes[i], 0, 1, 0);
			fastpath_at_store = begin_another;
			done = simhca_step(&scene.step);
			fastpath_at_store = NULL;
			/* All was done before, or nothing is; but the result can be left. */
			if (between.began) {
				assert_int_equal(*scene.word, between.found);
				assert_true(*scene.word || !done);
				assert_int_equal(scene.step.peer.writing.there->holder, 77);
				assert_int_equal(scene.step.peer.writing.mine->at_work, 0);
				kept_off += !*scene.word;
			}
			fastpath_detach(&scene.step);
			teardown(state);
		}
		assert_true(kept_off);
	}
}

/* An atomic on the program's own memory: the result is the device's to place, and is not found anew. */
static void the_result_is_left_to_the_device(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_writers own = { .holder = 1 }, *there = scene.step.writing.there;

	*scene.word = 5;
	scene.step.writing.there = &own;
	put_add(&scene, 1);
	assert_false(simhca_step(&scene.step));
	assert_int_equal(*scene.word, 6);
	assert_int_equal(*scene.result, 0);
	ring_doorbell(scene.pair->a.client, scene.pair->a.qp->doorbell);
	fastpath_completes(scene.pair->a.send_cq);
	assert_int_equal(*scene.word, 6);
	assert_int_equal(*scene.result, 5);
	scene.step.writing.there = there;
	check_works(scene.pair);
	fastpath_detach(&scene.step);
}

/* ------------------------------------------------------------------------- those who end */

/* At each store: what it had is let go of, and what it did is done once or not at all. */
static void killed_at_each_store(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
					   SIMHCA_WR_ATOMIC_CMP_AND_SWP, SIMHCA_WR_ATOMIC_WRITE,
					   SIMHCA_WR_RDMA_WRITE };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		bool killed = true, held = false, wrote = false;
		unsigned int store;

		for (store = 1; killed; store += STORE_STEP) {
			struct simhca_writers *there;
			struct scene scene;
			struct pair *other;
			uint64_t old;

			assert_true(store < MOST_STORES);
			fastpath_setup(state);
			scene = scene_new(*state);
			there = scene.step.peer.writing.there;
			other = fastpath_rc_pair(*state, false);
			*(uint64_t *)scene.pair->a.mr->addr = 1;
			put(scene.pair, opcodes[i], 0, opcodes[i] == SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
			    1);
			killed = fastpath_killed_at(&scene.step, store);
			held |= there->holder != 0;
			wrote |= scene.step.peer.writing.mine->at_work != 0;
			client_gone(scene.pair->a.client);
			assert_int_equal(there->holder, 0);
			assert_int_equal(scene.step.peer.writing.mine->at_work, 0);
			old = *scene.word;
			assert_true(old <= 1 && (killed || old));
			device_adds(&scene, other, 10);
			fastpath_completes(other->a.send_cq);
			assert_int_equal(*scene.word, old + 10);
			fastpath_detach(&scene.step);
			teardown(state);
		}
		/* All was done before, or nothing is; but the result can be left. */
		if (STORE_STEP == 1)
			assert_true(opcodes[i] == SIMHCA_WR_RDMA_WRITE ? wrote : held);
	}
}

static struct scene *stopped; /* who is stopped before its atomic's write, and comes back late */
static unsigned int stores_until_stop;

static void taken_back_meanwhile(void)
{
	if (stores_until_stop && !--stores_until_stop)
		atomic_store(&stopped->step.peer.writing.there->holder, 0);
}

/* From whom it was taken back in the middle: it changes nothing, and the device does it. */
static void who_comes_back_late(void **state)
{
	bool taken = false;

	for (unsigned int store = 1; store < 12; store++) {
		struct scene scene;

		fastpath_setup(state);
		scene = scene_new(*state);
		stopped = &scene;
		stores_until_stop = store;
		put_add(&scene, 1);
		fastpath_at_store = taken_back_meanwhile;
		if (!simhca_step(&scene.step)) {
			taken = true;
			assert_int_equal(*scene.word, 0);
			ring_doorbell(scene.pair->a.client, scene.pair->a.qp->doorbell);
		}
		fastpath_at_store = NULL;
		fastpath_completes(scene.pair->a.send_cq);
		assert_int_equal(*scene.word, 1);
		fastpath_detach(&scene.step);
		teardown(state);
	}
	assert_true(taken);
}

/* From who stays in an atomic the device takes it back, and writes alone from then on. */
static void who_stays_in_an_atomic(void **state)
{
	struct scene scene = scene_new(*state);
	struct pair *other = fastpath_rc_pair(*state, false);

	atomic_store(&scene.step.peer.writing.there->holder,
		     SIMHCA_OWNER_PROGRAM | scene.pair->a.qp->qpn);
	rdma_write(&other->a, 1, 0, 8, 0);
	expect(other->a.send_cq, 1, SUCCESS); /* after a second */
	put_write(&scene, 7);
	assert_false(simhca_step(&scene.step));
	assert_int_equal(scene.step.fastpath->handed[SIMHCA_SLOW_MEMORY], 1);
	ring_doorbell(scene.pair->a.client, scene.pair->a.qp->doorbell);
	fastpath_completes(scene.pair->a.send_cq);
	assert_int_equal(*scene.word, 7);
	/* Whoever has a name there has nothing by it. */
	atomic_store(&scene.step.peer.writing.there->holder, 77);
	device_adds(&scene, other, 1);
	fastpath_completes(other->a.send_cq);
	assert_int_equal(*scene.word, 8);
	fastpath_detach(&scene.step);
}

static void *let_go_later(void *arg)
{
	for (int i = 0; i < 8; i++)
		test_nap(50 * 1000);
	atomic_store((_Atomic uint32_t *)arg, 0);
	return NULL;
}

/* Likewise if it stays in one after the other: in two for less than a second together, and in three for more. */
static void who_stays_again_and_again(void **state)
{
	struct scene scene = scene_new(*state);
	struct pair *other = fastpath_rc_pair(*state, false);
	_Atomic uint32_t *holder = &scene.step.peer.writing.there->holder;

	for (int i = 1; i <= 3; i++) {
		pthread_t thread;

		atomic_store(holder, SIMHCA_OWNER_PROGRAM | scene.pair->a.qp->qpn);
		assert_int_equal(pthread_create(&thread, NULL, let_go_later, (void *)holder), 0);
		rdma_write(&other->a, i, 0, 8, 0);
		expect(other->a.send_cq, i, SUCCESS);
		pthread_join(thread, NULL);
		put_write(&scene, 7);
		assert_int_equal(simhca_step(&scene.step), i < 3);
		if (i < 3)
			fastpath_completes(scene.pair->a.send_cq);
	}
	assert_int_equal(scene.step.fastpath->handed[SIMHCA_SLOW_MEMORY], 1);
	fastpath_detach(&scene.step);
}

/* So it does if one says for ever that it writes: an atomic is late, but once. */
static void who_stays_in_a_write(void **state)
{
	struct scene scene = scene_new(*state);
	struct pair *other = fastpath_rc_pair(*state, false);
	struct simhca_cqe cqe;
	bool done = false;

	atomic_store(&scene.step.peer.writing.mine->at_work, 1);
	device_adds(&scene, other, 1);
	for (int i = 0; i < 5000 && !done; i++) {
		test_nap(1000);
		advance(*state, 1 * MSEC);
		done = cq_poll(other->a.send_cq, &cqe);
	}
	assert_true(done && !cqe.status);
	assert_int_equal(fastpath_usage(&other->a).retries, 0); /* it does not count as lost */
	assert_int_equal(*scene.word, 1);
	put_write(&scene, 7);
	assert_false(simhca_step(&scene.step));
	assert_int_equal(scene.step.fastpath->handed[SIMHCA_SLOW_MEMORY], 1);
	fastpath_detach(&scene.step);
}

/* What was taken back waits a second for who stays in a step as well, or says so for ever. */
static void who_stays_in_a_step(void **state)
{
	struct scene scene = scene_new(*state);
	struct pair *other = fastpath_rc_pair(*state, false);
	struct simhca_cqe cqe;
	bool done = false;

	atomic_store(&scene.step.fastpath->guard, 1);
	atomic_store(&scene.step.peer.writing.mine->at_work, 1);
	device_adds(&scene, other, 1);
	for (int i = 0; i < 5000 && !done; i++) {
		test_nap(1000);
		advance(*state, 1 * MSEC);
		done = cq_poll(other->a.send_cq, &cqe);
	}
	assert_true(done && !cqe.status);
	assert_int_equal(fastpath_usage(&other->a).retries, 0);
	assert_int_equal(*scene.word, 1);
	assert_int_equal(logged(*state, "a program has stayed in a step"), 1);
	device_adds(&scene, other, 1);
	fastpath_completes(other->a.send_cq); /* the others do not wait any more */
	assert_int_equal(*scene.word, 2);
	atomic_store(&scene.step.fastpath->guard, 2);
	fastpath_detach(&scene.step);
}

/* Taken back after an atomic was let in, and before it is done: it waits for steps with the others. */
static void what_is_taken_back_just_then(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_atomicity *atomicity = scene.pair->b.client->mm->atomicity;
	bool stays;

	assert_true(simhca_is_exclusive(atomicity));
	atomic_store(&scene.step.fastpath->guard, 1);
	simhca_exclusive_take_back(atomicity);
	assert_false(simhca_exclusive_atomic(atomicity, &stays) || stays);
	assert_false(simhca_is_exclusive(atomicity));
	atomic_store(&scene.step.fastpath->guard, 2);
	assert_true(simhca_is_exclusive(atomicity));
	assert_true(simhca_exclusive_atomic(atomicity, &stays));
	simhca_exclusive_done(atomicity);
	fastpath_detach(&scene.step);
}

/*
 * A program keeps an atomic off for a moment, and again long after. Returns how long the later moment was, in
 * ns: this thread may have to wait for its CPU, and what has kept off two bursts for 5 ms is taken back.
 */
static uint64_t keeps_off_now_and_then(struct scene *scene, struct world *world)
{
	_Atomic uint32_t *at_work = &scene->step.peer.writing.mine->at_work;
	struct pair *other = fastpath_rc_pair(world, false);
	uint64_t began, ended;

	atomic_store(at_work, 1);
	device_adds(scene, other, 1);
	run_until_idle(world);
	for (int i = 0; i < 12; i++)
		test_nap(100 * 1000);
	began = simhca_now_ns();
	advance(world, 1 * MSEC);
	atomic_store(at_work, 0);
	ended = simhca_now_ns();
	completes_in_time(other);
	return ended - began;
}

/* Two atomics that wait for a moment each, the second long after the first was given up. */
static void who_is_at_work_now_and_then(void **state)
{
	struct scene scene = scene_new(*state);

	for (int i = 0; i < 10 && keeps_off_now_and_then(&scene, *state) > 4 * MSEC; i++) {
		fastpath_detach(&scene.step);
		assert_int_equal(teardown(state) | fastpath_setup(state), 0);
		scene = scene_new(*state);
	}
	put_add(&scene, 1);
	assert_true(simhca_step(&scene.step)); /* nothing was taken back */
	fastpath_completes(scene.pair->a.send_cq);
	assert_int_equal(*scene.word, 2);
	fastpath_detach(&scene.step);
}

/* An atomic of the device's, tried as long as one that comes in by a wire, and given up. */
static bool is_stuck_in_burst(struct simhca_atomicity *atomicity)
{
	const uint64_t begin = simhca_now_ns();
	bool stuck = false;

	while (!stuck && simhca_now_ns() - begin < 10 * MSEC)
		assert_false(simhca_exclusive_atomic(atomicity, &stuck));
	return stuck;
}

/* The sender's time-out is so long that it is another burst each time. */
static unsigned int bursts_until_stuck(struct simhca_atomicity *atomicity,
				       void (*between)(struct scene *), struct scene *scene)
{
	unsigned int bursts = 1;

	while (!is_stuck_in_burst(atomicity)) {
		assert_true(++bursts < 12);
		for (int i = 0; i < 3; i++)
			test_nap(100 * 1000);
		between(scene);
	}
	return bursts;
}

static void nothing(struct scene *scene)
{
}

/* For that the device does not wait for its atomic any more. */
static void device_writes(struct scene *scene)
{
	struct simhca_atomicity *atomicity = scene->pair->b.client->mm->atomicity;
	bool stuck;

	simhca_exclusive_written(simhca_exclusive_write(atomicity, &stuck));
	assert_false(stuck);
}

/* Who stays is stuck, though atomics come seldom. */
static void who_stays_in_an_atomic_between_bursts(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_atomicity *atomicity = scene.pair->b.client->mm->atomicity;

	assert_true(simhca_is_exclusive(atomicity));
	atomic_store(&scene.step.peer.writing.there->holder,
		     SIMHCA_OWNER_PROGRAM | scene.pair->a.qp->qpn);
	assert_true(bursts_until_stuck(atomicity, nothing, &scene) > 2);
	fastpath_detach(&scene.step);
}

static void who_stays_in_a_write_between_bursts(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_atomicity *atomicity = scene.pair->b.client->mm->atomicity;

	assert_true(simhca_is_exclusive(atomicity));
	atomic_store(&scene.step.peer.writing.mine->at_work, 1);
	assert_true(bursts_until_stuck(atomicity, device_writes, &scene) > 2);
	atomic_store(&scene.step.peer.writing.mine->at_work, 0);
	fastpath_detach(&scene.step);
}

static void hands_over(struct scene *scene)
{
	struct simhca_writers *there = scene->step.peer.writing.there;
	const uint32_t name = SIMHCA_OWNER_PROGRAM | scene->pair->a.qp->qpn;

	simhca_writers_admit(there, name);
	atomic_store(&there->holder, name);
}

/* One that is met in an atomic at each burst, and not in the same one. */
static void who_is_met_in_each_burst(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_atomicity *atomicity = scene.pair->b.client->mm->atomicity;

	assert_true(simhca_is_exclusive(atomicity));
	atomic_store(&scene.step.peer.writing.there->holder,
		     SIMHCA_OWNER_PROGRAM | scene.pair->a.qp->qpn);
	for (int i = 0; i < 6; i++) {
		assert_false(is_stuck_in_burst(atomicity));
		for (int nap = 0; nap < 3; nap++)
			test_nap(100 * 1000);
		hands_over(&scene);
	}
	atomic_store(&scene.step.peer.writing.there->holder, 0);
	fastpath_detach(&scene.step);
}

/* How long a program tries an atomic that it leaves to the device, at best. */
static uint64_t tried_for(struct scene *scene)
{
	uint64_t least = UINT64_MAX, now;

	for (int i = 0; i < 10; i++) {
		now = simhca_now_ns();
		assert_false(simhca_step(&scene->step));
		now = simhca_now_ns() - now;
		least = now < least ? now : least;
	}
	return least;
}

/*
 * One says of writers that nobody has that there are many, and all at work, and of the device: a
 * program tries no longer for that, and the device's next atomic puts it right.
 */
static void who_lies_of_others(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_writers *there = scene.step.peer.writing.there;
	uint32_t count = there->count;
	uint64_t of_one;

	put_add(&scene, 1);
	atomic_store(&there->writer[0].at_work, 1);
	of_one = tried_for(&scene);
	atomic_store(&there->writer[0].at_work, 0);
	atomic_store(&there->count, SIMHCA_WRITERS);
	atomic_store(&there->writer[SIMHCA_WRITERS - 1].at_work, 1);
	assert_true(tried_for(&scene) < 20 * of_one);
	for (uint32_t i = count; i < SIMHCA_WRITERS; i++)
		atomic_store(&there->writer[i].at_work, 1);
	assert_true(tried_for(&scene) < 20 * of_one);
	atomic_store(&there->device, 1);
	ring_doorbell(scene.pair->a.client, scene.pair->a.qp->doorbell);
	completes_in_time(scene.pair);
	assert_int_equal(there->count, count);
	assert_int_equal(there->device, 0);
	for (uint32_t i = 0; i < SIMHCA_WRITERS; i++)
		assert_int_equal(there->writer[i].at_work, 0);
	put_add(&scene, 1);
	assert_true(simhca_step(&scene.step));
	fastpath_completes(scene.pair->a.send_cq);
	assert_int_equal(*scene.word, 2);

	/* Likewise that there are none. */
	atomic_store(&there->count, 0);
	device_adds(&scene, fastpath_rc_pair(*state, false), 1);
	run_until_idle(*state);
	assert_int_equal(there->count, count);
	fastpath_detach(&scene.step);
}

/* ------------------------------------------------------------------------------- at once */

#define ROUNDS 3000

/* In a process of its own; what it cannot do is the device's, in the process that has begun it. */
static void carry(struct scene *scene)
{
	struct pair *pair = scene->pair;
	struct simhca_cqe cqe;

	if (!simhca_step(&scene->step))
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	while (!cq_poll(pair->a.send_cq, &cqe))
		sched_yield();
	if (cqe.status)
		_exit(3);
}

/* It adds to the low half. */
static void adder(struct scene *scene)
{
	uint64_t last = 0;

	for (int i = 0; i < ROUNDS; i++) {
		put_add(scene, 1);
		carry(scene);
		if (i && (uint32_t)*scene->result <= (uint32_t)last)
			_exit(4);
		last = *scene->result;
	}
}

/* It is the only one that writes the high half, and finds it as it has left it. */
static void writer(struct scene *scene)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		((uint32_t *)scene->pair->a.mr->addr)[0] = (uint32_t)i;
		qp_put(scene->pair->a.qp,
		       &(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE,
				     .flags = SIGNALED,
				     .sges = (struct simhca_sge[]){ sge(scene->pair->a.mr, 0, 4) },
				     .num_sge = 1,
				     .remote_addr = scene->pair->b.mr->iova + 4,
				     .rkey = scene->pair->b.mr->rkey });
		carry(scene);
		put(scene->pair, SIMHCA_WR_RDMA_READ, 4096, 0, 0);
		carry(scene);
		if (*scene->result >> HIGH != i)
			_exit(5);
	}
}

/* Two programs and the device, on one word: nothing is lost. */
static void at_once(void **state)
{
	static void (*const what[])(struct scene * scene) = { adder, adder, writer };
	struct scene scene[ARRAY_SIZE(what)];
	uint8_t *own[ARRAY_SIZE(what)];
	uint64_t carried = 0;
	struct pair *pair;
	pid_t child[ARRAY_SIZE(what)];
	unsigned int left = ARRAY_SIZE(what), adds = 0;
	int status;

	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		struct client *client;

		scene[i] = scene_new(*state);
		client = scene[i].pair->a.client;
		share(scene[i].pair, &scene[0]);
		/* Its own, which both processes see. */
		own[i] =
			mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(own[i], MAP_FAILED);
		scene[i].pair->a.mr =
			mr_over(client, client->pd, own[i], 8192, (uintptr_t)own[i], ALL_ACCESS);
		scene[i].result = (uint64_t *)(own[i] + 4096);
	}
	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		what[i](&scene[i]);
		_exit(0);
	}
	pair = fastpath_rc_pair(*state, false);
	share(pair, &scene[0]);
	while (left) {
		put(pair, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 4096, 1, 0);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		completes_in_time(pair);
		adds++;
		while (left && waitpid(-1, &status, WNOHANG) > 0) {
			assert_true(WIFEXITED(status));
			assert_int_equal(WEXITSTATUS(status), 0);
			left--;
		}
	}
	assert_true(*scene[0].word == ((uint64_t)ROUNDS << HIGH) + 2 * ROUNDS + adds);
	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		carried += scene[i].step.fastpath->messages;
		fastpath_detach(&scene[i].step);
		munmap(own[i], 8192);
	}
	print_message("%" PRIu64 " of %d without the device, which did %u\n", carried, 4 * ROUNDS,
		      adds);
	assert_true(carried > ROUNDS);
}

/* ------------------------------------------------------------------------------ attaching */

/* As many QPs as there are writers, less one for each; and again when one has gone. */
static void how_many_may_write(void **state)
{
	struct scene scene = scene_new(*state);
	struct simhca_attach_peer_reply reply;
	struct pair *pair = NULL, *last;
	int ret = 0;

	for (uint32_t i = 0; i < SIMHCA_WRITERS && !ret; i++) {
		last = pair;
		pair = fastpath_rc_pair(*state, false);
		ret = fastpath_attach_with(&pair->a, &fastpath_secret, &reply);
		assert_true(ret || (reply.writer && reply.peer_writer));
	}
	assert_int_equal(ret, -ENOSPC);
	/* The same QP once more takes no other. */
	assert_int_equal(fastpath_attach_with(&last->a, &fastpath_secret, &reply), -ENOSPC);
	client_gone(last->a.client);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
	fastpath_detach(&scene.step);
}

/* Whoever has its file: that of a process that has ended is not the next one's of that pid. */
static void a_pid_that_is_used_again(void **state)
{
	const pid_t pid = 1 << 22; /* nobody's */
	struct simhca_context *context[] = { client_new(*state, 0)->context,
					     client_new(*state, 0)->context };
	struct simhca_mm *mm[2], *next;

	for (int i = 0; i < 2; i++)
		mm[i] = simhca_context_mm(context[i], pid);
	assert_ptr_equal(mm[0]->atomicity, mm[1]->atomicity);
	/* A context of it ends: the process is the same. */
	simhca_mm_gone(mm[0]);
	next = simhca_context_mm(context[0], pid);
	assert_ptr_not_equal(next, mm[0]);
	assert_ptr_equal(next->atomicity, mm[1]->atomicity);
	simhca_mm_gone(next);
	simhca_mm_gone(mm[1]);
	for (int i = 0; i < 2; i++)
		simhca_context_process_gone(context[i], pid);
	next = simhca_context_mm(context[0], pid);
	assert_ptr_not_equal(next->atomicity, mm[1]->atomicity);
	assert_ptr_equal(simhca_context_mm(context[1], pid)->atomicity, next->atomicity);
}

/* A UD QP writes there as well. */
static void a_datagram(void **state)
{
	struct scene scene = scene_new(*state);
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_UD);
	struct simhca_step step = fastpath_attach(&pair->a);

	assert_non_null(step.peer.writing.there);
	assert_null(step.writing.there);
	recv_into(&pair->b, 1, 0, 200);
	atomic_store(&step.peer.writing.there->holder,
		     SIMHCA_OWNER_PROGRAM | scene.pair->a.qp->qpn);
	send_from(&pair->a, 1, 0, 100);
	assert_false(fastpath_run(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	atomic_store(&step.peer.writing.there->holder, 0);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	fastpath_completes(pair->b.recv_cq);
	fastpath_detach(&step);
	fastpath_detach(&scene.step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(what_they_find_and_leave),
		HERE(what_is_refused),
		HERE(who_keeps_off),
		cmocka_unit_test(who_comes_between),
		HERE(the_result_is_left_to_the_device),
		cmocka_unit_test(killed_at_each_store),
		cmocka_unit_test(who_comes_back_late),
		HERE(who_stays_in_an_atomic),
		HERE(who_stays_again_and_again),
		HERE(who_stays_in_a_write),
		HERE(who_stays_in_a_step),
		HERE(who_stays_in_an_atomic_between_bursts),
		HERE(who_stays_in_a_write_between_bursts),
		HERE(who_is_met_in_each_burst),
		HERE(what_is_taken_back_just_then),
		HERE(who_is_at_work_now_and_then),
		HERE(who_lies_of_others),
		HERE(at_once),
		HERE(how_many_may_write),
		HERE(a_pid_that_is_used_again),
		HERE(a_datagram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
