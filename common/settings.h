/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Settings, and the layers in which they are given; options.h says what these are. */
#ifndef SIMHCAD_SETTINGS_H
#define SIMHCAD_SETTINGS_H

#include "options.h"

/* To the defaults, of which none is given. -1: out of memory. */
int settings_init(struct settings *settings);
void settings_free(struct settings *settings);
/* What upper gives replaces what is in settings. -1: out of memory. */
int settings_overlay(struct settings *settings, const struct settings *upper);

/* What a layer gives for one device; NULL: nothing. */
const struct settings *layer_find(const struct layer *layer, const char *device);
/* The same, made if need be. NULL and error if there can be no such device. */
struct settings *layer_device(struct layer *layer, const char *device, char error[OPTIONS_TEXT]);

#endif
