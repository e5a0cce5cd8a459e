# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Which private provider ABI the installed libibverbs speaks: SIMHCA_PABI is the layout, and
# SIMHCA_PABI_VERSION the number in its symbol versions, also the suffix of provider plugins. Asked
# anew at each configuration, as the library may have been upgraded since.
include(${CMAKE_CURRENT_LIST_DIR}/ProviderLayout.cmake)
if(NOT SIMHCA_PABI)
	find_library(IBVERBS_LIBRARY ibverbs HINTS ${IBVERBS_LIBRARY_DIRS} REQUIRED)
	simhca_layout_of_library(${IBVERBS_LIBRARY} "${IBVERBS_VERSION}" SIMHCA_PABI)
endif()
simhca_layout_version(${SIMHCA_PABI} SIMHCA_PABI_VERSION)
message(STATUS "libibverbs private ABI: ${SIMHCA_PABI_VERSION} (layout ${SIMHCA_PABI})")

# For packages of the provider: the releases that it fits.
simhca_releases_alike("${IBVERBS_VERSION}" first end)
file(WRITE ${PROJECT_BINARY_DIR}/libibverbs-releases "${first} ${end}\n")
