/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Providers of each layout, loaded by a libibverbs of each: who belongs together works, everybody
 * else is refused by the dynamic linker or with one line that says for which releases the provider
 * was built, what differs, in which library, and what to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The first release of each layout, and what its providers say of themselves. */
static const struct layout {
	int release, pabi;
	const char *loads; /* the releases that load it */
	int qp_ex;	   /* which of the layouts of struct ibv_qp_ex */
} layouts[] = {
	{ 39, 34, "39-43", 0 }, { 44, 34, "44", 1 },	{ 45, 34, "45-56", 2 },
	{ 49, 34, "45-56", 2 }, { 57, 57, "57-58", 2 }, { 59, 59, "59-61", 2 },
	{ 62, 59, "62-63", 2 }, { 64, 64, "64", 2 },	{ 65, 65, "65", 2 },
};

enum outcome { REGISTERED, REFUSED, NOT_LOADED, NO_LIBRARY };

/* In a process of its own. What the provider writes, or the linker says, is in text. */
static enum outcome load(const struct layout *library, const struct layout *provider, char *text,
			 size_t size)
{
	const char *const **registered;
	char path[512];
	int pipe_fd[2], status;
	size_t length = 0;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(pipe_fd), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		void *handle;

		dup2(pipe_fd[1], STDERR_FILENO);
		snprintf(path, sizeof(path), "%s/libabi-library-%d.so", ABI_DIR, library->release);
		handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		if (!handle) {
			dprintf(STDERR_FILENO, "%s\n", dlerror());
			_exit(NO_LIBRARY);
		}
		snprintf(path, sizeof(path), "%s/libabi-provider-%d.so", ABI_DIR,
			 provider->release);
		if (!dlopen(path, RTLD_NOW)) {
			dprintf(STDERR_FILENO, "%s\n", dlerror());
			_exit(NOT_LOADED);
		}
		registered = (const char *const **)dlsym(handle, "registered");
		_exit(*registered && !strcmp(**registered, "provider") ? REGISTERED : REFUSED);
	}
	close(pipe_fd[1]);
	while ((got = read(pipe_fd[0], text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(pipe_fd[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status))
		fail_msg("%d in %d: ended by signal %d: %s", provider->release, library->release,
			 WTERMSIG(status), text);
	return (enum outcome)WEXITSTATUS(status);
}

static const char *difference(const struct layout *library, const struct layout *provider)
{
	if (library->qp_ex != provider->qp_ex)
		return "struct verbs_qp";
	/* 59 and 62: the first operation whose public slot has moved. */
	return library->release != provider->release && library->pabi == 59 ? "advise_mr" : NULL;
}

static void each_in_each(void **state)
{
	for (size_t l = 0; l < ARRAY_SIZE(layouts); l++) {
		for (size_t p = 0; p < ARRAY_SIZE(layouts); p++) {
			const struct layout *library = &layouts[l], *provider = &layouts[p];
			enum outcome outcome, expected = REGISTERED;
			char text[1024], line[1024] = "", pabi[64];
			const char *wrong = NULL;

			outcome = load(library, provider, text, sizeof(text));
			if (library->pabi != provider->pabi)
				expected = NOT_LOADED;
			else
				wrong = difference(library, provider);
			if (wrong) {
				expected = REFUSED;
				snprintf(line, sizeof(line),
					 "provider: built for rdma-core %s, but "
					 "%s/libabi-library-%d.so has another %s: build simhca on "
					 "this system, with the headers (libibverbs-dev, "
					 "rdma-core-devel) of this libibverbs\n",
					 provider->loads, ABI_DIR, library->release, wrong);
			}
			if (outcome != expected)
				fail_msg("provider of %d in libibverbs of %d: %d, not %d: %s",
					 provider->release, library->release, outcome, expected,
					 text);
			snprintf(pabi, sizeof(pabi), "IBVERBS_PRIVATE_%d", provider->pabi);
			if (expected == NOT_LOADED)
				assert_non_null(strstr(text, pabi));
			else
				assert_string_equal(text, line);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_in_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
