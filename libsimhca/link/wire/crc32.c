/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <libdeflate.h>

#include "link/wire/crc32.h"

#if defined(__x86_64__) && LIBDEFLATE_VERSION_MAJOR == 1 && LIBDEFLATE_VERSION_MINOR < 20
#include <immintrin.h>

#define FOLDS __attribute__((target("avx2,vpclmulqdq,pclmul")))
#define STRIDE 128u /* bytes of four registers */
#define WORTH 512u  /* bytes, from which it is faster than libdeflate */

/*
 * x^(n + 32) and x^(n - 32) modulo the polynomial, bits reversed and one place to the left: what the
 * halves of 16 bytes are multiplied by to stand n bits further on (V. Gopal and others, "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009).
 */
#define AHEAD_1024_LOW 0x1e88ef372
#define AHEAD_1024_HIGH 0x14a7fe880
#define AHEAD_256_LOW 0x0f1da05aa
#define AHEAD_256_HIGH 0x15a546366

FOLDS static inline __m256i load(const uint8_t *bytes)
{
	return _mm256_loadu_si256((const __m256i *)bytes);
}

FOLDS static inline __m256i fold(__m256i sum, __m256i ahead, __m256i next)
{
	__m256i low = _mm256_clmulepi64_epi128(sum, ahead, 0x00);
	__m256i high = _mm256_clmulepi64_epi128(sum, ahead, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

/* Folds all whole strides, of which there is one at least, to 32 bytes of the same CRC. */
FOLDS static uint32_t crc32_of_strides(uint32_t crc, const uint8_t *bytes, size_t strides)
{
	const __m256i far =
		_mm256_set_epi64x(AHEAD_1024_HIGH, AHEAD_1024_LOW, AHEAD_1024_HIGH, AHEAD_1024_LOW);
	const __m256i near =
		_mm256_set_epi64x(AHEAD_256_HIGH, AHEAD_256_LOW, AHEAD_256_HIGH, AHEAD_256_LOW);
	__m256i sum[4] = { load(bytes), load(bytes + 32), load(bytes + 64), load(bytes + 96) };
	uint8_t rest[32];

	sum[0] = _mm256_xor_si256(sum[0], _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)~crc));
	while (--strides) {
		bytes += STRIDE;
		for (int i = 0; i < 4; i++)
			sum[i] = fold(sum[i], far, load(bytes + 32 * i));
	}
	for (int i = 1; i < 4; i++)
		sum[i] = fold(sum[i - 1], near, sum[i]);
	_mm256_storeu_si256((__m256i *)rest, sum[3]);
	return libdeflate_crc32(UINT32_MAX, rest, sizeof(rest)); /* the CRC before is in it */
}

uint32_t simhca_crc32(uint32_t crc, const uint8_t *bytes, size_t length)
{
	size_t strides = length / STRIDE;

	if (length >= WORTH && __builtin_cpu_supports("vpclmulqdq") &&
	    __builtin_cpu_supports("avx2")) {
		crc = crc32_of_strides(crc, bytes, strides);
		bytes += strides * STRIDE;
		length -= strides * STRIDE;
	}
	return libdeflate_crc32(crc, bytes, length);
}

#else

uint32_t simhca_crc32(uint32_t crc, const uint8_t *bytes, size_t length)
{
	return libdeflate_crc32(crc, bytes, length);
}

#endif
