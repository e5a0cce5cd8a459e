# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Which private provider ABI the installed libibverbs speaks. SIMHCA_PABI_VERSION is the number
# in its IBVERBS_PRIVATE_<n> symbol version, also the suffix of provider plugins; SIMHCA_PABI
# names the layout of ibverbs-provider-abi.h, which differs for 59 from release 62 on.
if(NOT SIMHCA_PABI)
	find_library(IBVERBS_LIBRARY ibverbs HINTS ${IBVERBS_LIBRARY_DIRS} REQUIRED)
	file(STRINGS ${IBVERBS_LIBRARY} SIMHCA_PABI_NODE REGEX "^IBVERBS_PRIVATE_[0-9]+$")
	list(GET SIMHCA_PABI_NODE 0 SIMHCA_PABI_NODE)
	string(REGEX REPLACE "^IBVERBS_PRIVATE_" "" SIMHCA_PABI_NUMBER "${SIMHCA_PABI_NODE}")
	# The third component of the library's version is the release: 1.14.44.0 is 44.
	string(REGEX REPLACE "^[0-9]+\\.[0-9]+\\.([0-9]+).*" "\\1" IBVERBS_RELEASE "${IBVERBS_VERSION}")
	if(SIMHCA_PABI_NUMBER EQUAL 59 AND IBVERBS_RELEASE GREATER_EQUAL 62)
		set(SIMHCA_PABI_NUMBER 62)
	endif()
	set(SIMHCA_PABI ${SIMHCA_PABI_NUMBER} CACHE STRING "Layout of libibverbs' private ABI" FORCE)
endif()
set(SIMHCA_PABI_KNOWN 34 57 59 62 64 65)
if(NOT SIMHCA_PABI IN_LIST SIMHCA_PABI_KNOWN)
	message(FATAL_ERROR "libibverbs' private ABI is ${SIMHCA_PABI}; simhca knows ${SIMHCA_PABI_KNOWN}. "
		"Set -DSIMHCA_PABI to one of these, or build against another libibverbs.")
endif()
set(SIMHCA_PABI_VERSION ${SIMHCA_PABI})
if(SIMHCA_PABI EQUAL 62)
	set(SIMHCA_PABI_VERSION 59)
endif()
target_compile_definitions(simhca_flags INTERFACE SIMHCA_PABI=${SIMHCA_PABI})
message(STATUS "libibverbs private ABI: ${SIMHCA_PABI_VERSION} (layout ${SIMHCA_PABI})")
