# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Which layout of libibverbs' private ABI belongs to which release of rdma-core. SIMHCA_PABI names
# the layout (see providers/simhca/ibverbs-provider-abi.h); its number in the library's symbol versions
# is the same, but for 62.

# The layout of a release that is known (39 to 65), and the number in the library.
function(simhca_layout_of_release release layout version)
	set(found 34)
	foreach(first 57 59 62 64 65)
		if(release GREATER_EQUAL first)
			set(found ${first})
		endif()
	endforeach()
	set(${layout} ${found} PARENT_SCOPE)
	simhca_layout_version(${found} number)
	set(${version} ${number} PARENT_SCOPE)
endfunction()

# The number that the library of a layout has.
function(simhca_layout_version layout version)
	if(layout EQUAL 62)
		set(layout 59)
	endif()
	set(${version} ${layout} PARENT_SCOPE)
endfunction()

# The layout of the library in this file, whose version pkg-config says; or an error that says what
# to do about it.
function(simhca_layout_of_library library pkg_config_version layout)
	file(STRINGS ${library} nodes REGEX "^IBVERBS_PRIVATE_[0-9]+$")
	if(NOT nodes MATCHES "IBVERBS_PRIVATE_([0-9]+)")
		message(FATAL_ERROR "${library} has no symbol version IBVERBS_PRIVATE_<number>: it is not "
			"the libibverbs of rdma-core. Install rdma-core's (on Debian libibverbs-dev), or "
			"name it by -DIBVERBS_LIBRARY=FILE.")
	endif()
	set(number ${CMAKE_MATCH_1})
	# The third component is the release: 1.14.44.0 is 44.
	if(NOT pkg_config_version MATCHES "^[0-9]+\\.[0-9]+\\.([0-9]+)")
		message(FATAL_ERROR "pkg-config says that libibverbs is of version "
			"\"${pkg_config_version}\", which names no release of rdma-core: mend libibverbs.pc, or "
			"set PKG_CONFIG_PATH to the directory of the right one.")
	endif()
	set(release ${CMAKE_MATCH_1})
	if(release LESS 39)
		message(FATAL_ERROR "${library} is of rdma-core ${release}; simhca needs rdma-core 39 or "
			"newer.")
	endif()
	simhca_layout_of_release(${release} known expected)
	if(release GREATER 65 AND NOT number IN_LIST expected)
		message(FATAL_ERROR "${library} is of rdma-core ${release}, with the private ABI ${number}; "
			"this simhca knows rdma-core 39 to 65. Take a newer simhca, or build and run it where "
			"rdma-core is older: Debian 12 and 13 have one that it knows, and "
			"examples/container/Dockerfile makes a container of Debian 13.")
	endif()
	if(NOT number IN_LIST expected)
		message(FATAL_ERROR "${library} has the private ABI ${number}, but pkg-config says that it "
			"is of rdma-core ${release}, which has ${expected}: two are installed. Set "
			"PKG_CONFIG_PATH and -DIBVERBS_LIBRARY=FILE so that both name the same one.")
	endif()
	set(${layout} ${known} PARENT_SCOPE)
endfunction()

# The releases, from first to before end, in which the structs are alike that programs, library and
# provider share, public ones included. No release has been seen from the last of these on.
function(simhca_releases_alike pkg_config_version first end)
	string(REGEX REPLACE "^[0-9]+\\.[0-9]+\\.([0-9]+).*" "\\1" release "${pkg_config_version}")
	set(since 39)
	foreach(change 44 45 49 57 59 62 64 65 66)
		set(until ${change})
		if(release LESS change)
			break()
		endif()
		set(since ${change})
	endforeach()
	set(${first} ${since} PARENT_SCOPE)
	set(${end} ${until} PARENT_SCOPE)
endfunction()
