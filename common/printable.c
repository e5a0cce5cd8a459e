/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "printable.h"

/* Of a character that is no single byte: how long it is; 0: it is none. */
static size_t decode(const unsigned char *text, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2;

	if (*text < 0xc2 || *text > 0xf4)
		return 0;
	*code = *text & (0xff >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (text[i] & 0x3f);
	}
	return *code >= least[length] && *code <= 0x10ffff ? length : 0;
}

/* C1 are a terminal's, as those below the blank are; surrogates are no characters. */
static bool is_printable(uint32_t code)
{
	return code >= 0xa0 && (code < 0x200b || code > 0x200f) &&
	       (code < 0x2028 || code > 0x202e) && (code < 0x2060 || code > 0x206f) &&
	       (code < 0xd800 || code > 0xdfff) && code != 0xfeff;
}

void make_printable(char *text)
{
	unsigned char *byte = (unsigned char *)text;

	while (*byte) {
		uint32_t code = 0;
		size_t length = *byte < 0x80 ? 1 : decode(byte, &code);
		bool good =
			*byte < 0x80 ? *byte >= ' ' && *byte != 0x7f : length && is_printable(code);

		for (size_t i = 0; !good && i < (length ? length : 1); i++)
			byte[i] = '?';
		byte += length ? length : 1;
	}
}

void make_ascii(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}
