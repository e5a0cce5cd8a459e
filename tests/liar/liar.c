/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Tells lies to the device model, on one thread; or on others while engines run (--threads):
 *
 *	simhca-liar [--seconds S] [--lies N] [--seed N] [--scene NAME] [--part I/N] [--threads]
 *	simhca-liar --tell SCENE [LIE]...	the lies that led to a failure, as it prints them
 *	simhca-liar --list			the scenes; with --scene its fields
 *
 * SIMHCA_LIAR_SECONDS and SIMHCA_LIES are what --seconds and --lies are otherwise; a part has each
 * N-th scene. A sanitizer's report, a signal, an assertion and a lie that takes too much CPU time end the
 * program, which prints the lies since the QPs were last made. While each lie is told a message of
 * an honest pair goes through the same device, and is looked at.
 */
#include <getopt.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "liar.h"

#define TICK_US 10000
#define MOST_TICKS 6	 /* of CPU time that one lie takes, */
#define MOST_KERNEL 25	 /* and with the kernel's, which includes first touches of pages */
#define MOST_ROUNDS 500	 /* of the engine until an honest message has come */
#define HISTORY 16	 /* lies from one renewal to the next, at most */
#define MOST_TOGETHER 16 /* lies without a pause between them */
#define REFUSED_SHOWN 16 /* one in so many of what a gate refuses is told to an engine */
#define MOST_REFUSED 64	 /* lies until an honest message is to come through */

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
void __sanitizer_print_stack_trace(void) __attribute__((weak));
int __asan_report_present(void) __attribute__((weak));

static struct scene *scene;
static struct lie told[HISTORY];
static unsigned int num_told;
static volatile sig_atomic_t lies_begun;
static uint64_t seed = 1;
static bool in_threads; /* the lies are another thread's, and so many that none is kept */
static bool prints_all;

/* ------------------------------------------------------------------------------- the end */

/* To print takes time as well, of which nobody is to be caught. */
static void stop_ticks(void)
{
	const struct itimerval none = { { 0, 0 }, { 0, 0 } };

	setitimer(ITIMER_VIRTUAL, &none, NULL);
	setitimer(ITIMER_PROF, &none, NULL);
}

static void print_lies(void)
{
	static char text[8192];
	static bool printed;

	stop_ticks();
	if (printed || !scene)
		return;
	printed = true;
	if (in_threads) {
		fprintf(stderr,
			"liar: to try it again: simhca-liar --threads --scene %s --seed %llu\n",
			scene->kind->name, (unsigned long long)seed);
		return;
	}
	fprintf(stderr, "liar: to see it again: simhca-liar --tell %s", scene->kind->name);
	for (unsigned int i = 0; i < num_told; i++) {
		lie_print(scene, &told[i], text, sizeof(text));
		fprintf(stderr, " '%s'", text);
	}
	fprintf(stderr, "\n");
}

void caught(const char *format, ...)
{
	va_list args;

	stop_ticks();
	va_start(args, format);
	fprintf(stderr, "liar: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	print_lies();
	if (__sanitizer_print_stack_trace)
		__sanitizer_print_stack_trace();
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void on_signal(int number)
{
	print_lies();
	signal(number, SIG_DFL);
	raise(number);
}

/* Of CPU time, so that it does not matter how busy the machine is. */
static void on_tick(int number)
{
	static sig_atomic_t last[2];
	static unsigned int ticks[2];
	const bool with_kernel = number == SIGPROF;
	const unsigned int most = with_kernel ? MOST_KERNEL : MOST_TICKS;

	if (__asan_report_present && __asan_report_present()) /* which takes longer than lies may */
		return;
	if (!scene) /* made or freed, which takes as long as it has lasted */
		return;
	if (last[with_kernel] != lies_begun) {
		last[with_kernel] = lies_begun;
		ticks[with_kernel] = 0;
	} else if (++ticks[with_kernel] == most) {
		caught("this has taken %u ms of CPU time%s", most * TICK_US / 1000,
		       with_kernel ? ", with the kernel's" : "");
	}
}

static void watch(bool ticks)
{
	const struct itimerval tick = { { 0, TICK_US }, { 0, TICK_US } };

	setenv("CMOCKA_TEST_ABORT", "1", 1);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(print_lies);
	else
		signal(SIGSEGV, on_signal);
	signal(SIGABRT, on_signal);
	if (!ticks)
		return;
	signal(SIGVTALRM, on_tick);
	signal(SIGPROF, on_tick);
	setitimer(ITIMER_VIRTUAL, &tick, NULL);
	setitimer(ITIMER_PROF, &tick, NULL);
}

/* ------------------------------------------------------------------------ an honest pair */

static void check_honest(void)
{
	struct honest taken;

	for (unsigned int i = 0; i < 2; i++) {
		unsigned int round = 0;

		while (!scene->rings->take_honest(scene, i, &taken)) {
			if (round++ == MOST_ROUNDS)
				caught("an honest message does not come");
			world_poll(scene->world);
		}
		if (taken.id != scene->message || taken.status)
			caught("an honest message ends with status %u", taken.status);
		if (taken.qpn != scene->honest_qpn[i])
			caught("an honest message ends at QP %#x", taken.qpn);
	}
	scene->message++;
}

/* What is the honest pair's is not in a liar's memory. */
__attribute__((no_sanitize("address", "undefined"))) static void check_secret(const struct mr *mr)
{
	const uint64_t *words = (const uint64_t *)mr->addr;

	if (mpt_of(mr->client, mr->lkey)->access & SIMHCA_ACCESS_ON_DEMAND)
		return;
	for (unsigned int i = 0; i < mr->length / 8; i++)
		if (words[i] == SECRET)
			caught("a liar has read what is another's");
}

/* ------------------------------------------------------------------------------ telling */

static bool has_ended(void)
{
	return scene_state(scene, 0) == SIMHCA_QPS_ERR || scene_state(scene, 1) == SIMHCA_QPS_ERR;
}

static struct counts {
	uint64_t lies, refused, looks, anew, fatal;
} counts;

static void begin_look(void)
{
	lies_begun++;
	if (num_told + MOST_TOGETHER > HISTORY)
		scene->broken = true;
	scene_enter(scene);
	if (scene->fresh) {
		num_told = 0;
		counts.anew++;
	}
	scene->rings->post_honest(scene);
}

/* What was told last is there: the device looks at it for a moment. */
static void show(void)
{
	if (prints_all) {
		char text[4096];

		lie_print(scene, &told[num_told - 1], text, sizeof(text));
		printf("%s '%s'\n", scene->kind->name, text);
	}
	scene->rings->ring(scene);
	for (unsigned int i = 0; i < 2 && world_poll(scene->world); i++)
		;
	scene->rings->check_progress(scene);
}

static void end_look(void)
{
	struct lie *last = num_told ? &told[num_told - 1] : NULL;

	for (unsigned int i = 0; i < 8 && world_poll(scene->world); i++)
		;
	for (unsigned int i = 0; last && i < MOST_ACTS; i++)
		if (last->act[i])
			scene_act(scene, last->act[i]);
	check_honest();
	scene->rings->check_progress(scene);
	scene->rings->check(scene);
	check_secret(scene->mr[0]);
	check_secret(scene->mr[1]);
	counts.looks++;
	counts.fatal += has_ended();
}

/*
 * Of lies that a gate refuses few come to an engine; of the others some are told together, one while the
 * device works by the one before. Returns the number of the next lie.
 */
static uint64_t look(uint64_t number, uint64_t end)
{
	static const uint8_t some[] = { 1, 2, 4, 8, 12, MOST_TOGETHER, MOST_TOGETHER };
	const unsigned int together = some[number / 8 % ARRAY_SIZE(some)];
	unsigned int told_now = 0;
	struct before before;

	begin_look();
	for (unsigned int i = 0; i < MOST_REFUSED && number < end; i++, number++) {
		struct lie *lie = &told[num_told];
		bool by_itself = lie_make(scene, seed, number, lie);

		if (by_itself && told_now)
			break;
		lies_begun++;
		counts.lies++;
		lie_note(scene, lie, &before);
		lie_tell(scene, lie);
		num_told++; /* and printed, if the gates themselves are caught */
		if (scene->rings->refuse(scene)) {
			counts.refused++;
			if (!by_itself && number % REFUSED_SHOWN) {
				lie_take_back(scene, lie, &before);
				num_told--;
				continue;
			}
		}
		told_now++;
		/* A lie that is about what happens in a certain order is the last. */
		lie->goes_on = !by_itself && !lie->act[MOST_ACTS - 1] && told_now < together;
		show();
		if (!lie->goes_on || has_ended()) {
			number++;
			break;
		}
	}
	if (told_now)
		told[num_told - 1].goes_on = false;
	end_look();
	return number;
}

/* Whatever was said before. */
static void check_works_anew(void)
{
	lies_begun++;
	scene_renew(scene);
	if (!scene->rings->works(scene))
		caught("a QP that was reset does not work");
	scene->broken = true;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void lie_in(const struct scene_kind *kind, double seconds, uint64_t lies)
{
	const struct counts before = counts;
	struct scene *ended;
	double began = now();
	uint64_t told_now;

	num_told = 0;
	lies_begun++;
	scene = scene_new(kind, 0);
	for (uint64_t looks = 0, n = 0; n < lies; looks++) {
		if (looks % 256 == 255) {
			if (now() - began >= seconds)
				break;
			if (looks % 4096 == 255)
				check_works_anew();
		}
		n = look(n, lies);
	}
	told_now = counts.lies - before.lies;
	printf("%-15s %9llu lies, %8.0f/s, gates refused %2.0f %%, %2.0f %% of %llu looks ended a "
	       "QP\n",
	       kind->name, (unsigned long long)told_now, (double)told_now / (now() - began),
	       100.0 * (double)(counts.refused - before.refused) / (double)told_now,
	       100.0 * (double)(counts.fatal - before.fatal) /
		       (double)(counts.looks - before.looks),
	       (unsigned long long)(counts.looks - before.looks));
	fflush(stdout);
	ended = scene;
	scene = NULL;
	scene_free(ended);
}

static void lie_in_threads(const struct scene_kind *kind, double seconds)
{
	double began = now();
	uint64_t lies;

	if (kind->lossy) /* which knows no threads */
		return;
	in_threads = true;
	scene = scene_new(kind, 2);
	lies = lie_while_engines_run(scene, seed, seconds);
	printf("%-15s %9llu lies by a thread, %8.0f/s, beside %llu honest messages\n", kind->name,
	       (unsigned long long)lies, (double)lies / (now() - began),
	       (unsigned long long)scene->message);
	fflush(stdout);
	counts.lies += lies;
	scene_free(scene);
	scene = NULL;
}

static const struct scene_kind *find(const char *name)
{
	for (unsigned int i = 0; i < num_scene_kinds; i++)
		if (!strcmp(scene_kinds[i].name, name))
			return &scene_kinds[i];
	fprintf(stderr, "liar: %s: no such scene; see --list\n", name);
	exit(2);
}

static int list(const char *name)
{
	if (!name) {
		for (unsigned int i = 0; i < num_scene_kinds; i++)
			puts(scene_kinds[i].name);
		return 0;
	}
	scene = scene_new(find(name), 0);
	scene_enter(scene);
	for (unsigned int i = 0; i < scene->fields; i++)
		printf("%-24s %#llx\n", scene->field[i].name,
		       (unsigned long long)field_get(&scene->field[i]));
	scene_free(scene);
	return 0;
}

static int tell_again(int argc, char **argv)
{
	bool goes_on = false;

	prints_all = true;
	scene = scene_new(find(argv[0]), 0);
	scene_enter(scene);
	for (int i = 1; i < argc; i++) {
		if (!goes_on) {
			begin_look();
			if (scene->fresh && i > 1)
				printf("(made anew)\n");
		}
		if (num_told == HISTORY || !lie_parse(scene, argv[i], &told[num_told]))
			return 2;
		goes_on = told[num_told].goes_on && i + 1 < argc;
		lie_tell(scene, &told[num_told++]);
		scene->rings->refuse(scene);
		show();
		if (!goes_on)
			end_look();
	}
	check_works_anew();
	scene_free(scene);
	printf("nothing happened\n");
	return 0;
}

static struct {
	const char *scene;
	double seconds;
	uint64_t lies; /* UINT64_MAX: as many as there is time for */
	unsigned int part, parts;
	bool lists, threads;
} how = { .seconds = 60, .lies = UINT64_MAX, .parts = 1 };

static void read_environment(void)
{
	const char *seconds = getenv("SIMHCA_LIAR_SECONDS"), *lies = getenv("SIMHCA_LIES");

	if (seconds)
		how.seconds = atof(seconds);
	if (lies)
		how.lies = strtoull(lies, NULL, 0);
	if (getenv("SIMHCA_TEST_SEED"))
		seed = strtoull(getenv("SIMHCA_TEST_SEED"), NULL, 0);
}

/* In each scene as often as in the others, or for as long. */
static int lie_in_all(void)
{
	const unsigned int scenes = (num_scene_kinds + how.parts - 1 - how.part) / how.parts;

	for (unsigned int i = how.part; i < num_scene_kinds; i += how.parts) {
		if (how.threads)
			lie_in_threads(&scene_kinds[i], how.seconds / scenes);
		else if (how.lies == UINT64_MAX)
			lie_in(&scene_kinds[i], how.seconds / scenes, how.lies);
		else
			lie_in(&scene_kinds[i], 1e9, how.lies / scenes + 1);
	}
	printf("%llu lies, seed %llu; the QPs were made anew %llu times\n",
	       (unsigned long long)counts.lies, (unsigned long long)seed,
	       (unsigned long long)counts.anew);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "lies", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 'r' },
		{ "scene", required_argument, NULL, 'c' },
		{ "part", required_argument, NULL, 'p' },
		{ "threads", no_argument, NULL, 'T' },
		{ "tell", no_argument, NULL, 't' },
		{ "list", no_argument, NULL, 'l' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	bool tells = false;
	int option;

	if (argc == 2 && !strcmp(argv[1], "--hold"))
		moved_hold();
	read_environment();
	while (!tells && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			how.seconds = atof(optarg);
			how.lies = UINT64_MAX;
			break;
		case 'n':
			how.lies = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			how.scene = optarg;
			break;
		case 'p':
			if (sscanf(optarg, "%u/%u", &how.part, &how.parts) != 2 ||
			    how.part >= how.parts)
				return 2;
			break;
		case 'T':
			how.threads = true;
			break;
		case 'l':
			how.lists = true;
			break;
		case 'v':
			prints_all = true;
			break;
		case 't':
			tells = true;
			break;
		default:
			return 2;
		}
	}
	if (how.lists)
		return list(how.scene);
	watch(!how.threads);
	if (!tells) {
		printf("seed %llu\n", (unsigned long long)seed);
		fflush(stdout);
	}
	if (tells)
		return argc > optind ? tell_again(argc - optind, argv + optind) : 2;
	if (!how.scene)
		return lie_in_all();
	if (how.threads)
		lie_in_threads(find(how.scene), how.seconds);
	else
		lie_in(find(how.scene), how.lies == UINT64_MAX ? how.seconds : 1e9, how.lies);
	return 0;
}
