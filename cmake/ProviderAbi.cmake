# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Which private provider ABI the installed libibverbs speaks: the number in its
# IBVERBS_PRIVATE_<n> symbol version, which is also the suffix of provider plugins.
if(NOT SIMHCA_PABI)
	find_library(IBVERBS_LIBRARY ibverbs HINTS ${IBVERBS_LIBRARY_DIRS} REQUIRED)
	file(STRINGS ${IBVERBS_LIBRARY} SIMHCA_PABI_STRINGS REGEX "^IBVERBS_PRIVATE_[0-9]+$")
	list(GET SIMHCA_PABI_STRINGS 0 SIMHCA_PABI_STRING)
	string(REGEX REPLACE "^IBVERBS_PRIVATE_" "" SIMHCA_PABI_FOUND "${SIMHCA_PABI_STRING}")
	set(SIMHCA_PABI ${SIMHCA_PABI_FOUND} CACHE STRING "libibverbs' private ABI" FORCE)
endif()
set(SIMHCA_PABI_KNOWN 34 57 59 64)
if(NOT SIMHCA_PABI IN_LIST SIMHCA_PABI_KNOWN)
	message(FATAL_ERROR "libibverbs' private ABI is ${SIMHCA_PABI}; simhca knows ${SIMHCA_PABI_KNOWN}. "
		"Set -DSIMHCA_PABI to one of these, or build against another libibverbs.")
endif()
message(STATUS "libibverbs private ABI: ${SIMHCA_PABI}")
