/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The configuration file: lines "option = value" with the names of the command line's options,
 * general ones first, those of one device below a line [device NAME].
 */
#ifndef SIMHCAD_CONFIG_FILE_H
#define SIMHCAD_CONFIG_FILE_H

#include "options.h"

#define CONFIG_FILE_DEFAULT "/etc/simhca/simhcad.conf"

/* 0; -ENOENT silently when there is no such file; else -1, and what is wrong was said. */
int config_file_load(const char *path, struct layer *layer);

#endif
