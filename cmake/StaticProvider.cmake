# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The provider for programs that are linked statically: libibverbs loads none in these. libibverbs.a has the functions that
# providers call under names of its release ("rdmacore44_0_verbs_set_ops"), and so has what is made here.

# simhca_add_static_provider(SOURCES..): target `static-provider`, which makes lib/libsimhca-rdmavN.a.
function(simhca_add_static_provider)
	find_library(LIBIBVERBS_A libibverbs.a HINTS ${IBVERBS_LIBDIR})
	if(NOT LIBIBVERBS_A)
		return()
	endif()
	list(REMOVE_ITEM ARGN siblings.c) # its libibverbs is the one that it is linked with
	# The fast path, compiled anew: what simhca_step asks an older glibc for (OldestGlibc.cmake) no libc.a has.
	get_target_property(step simhca_step SOURCES)
	list(TRANSFORM step PREPEND ${PROJECT_SOURCE_DIR}/libsimhca/)
	add_library(simhca-provider-static STATIC EXCLUDE_FROM_ALL abi_check.c ${ARGN} ${step})
	target_compile_definitions(simhca-provider-static PRIVATE SIMHCA_PABI=${SIMHCA_PABI} SIMHCA_IS_STATIC)
	get_target_property(definitions simhca-provider COMPILE_DEFINITIONS)
	target_compile_definitions(simhca-provider-static PRIVATE ${definitions})
	simhca_together(simhca-provider-static)
	target_compile_options(simhca-provider-static PRIVATE -fno-lto)
	target_include_directories(simhca-provider-static PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
		${PROJECT_SOURCE_DIR}/libsimhca ${cq_header})
	target_link_libraries(simhca-provider-static PRIVATE simhca_flags PkgConfig::IBVERBS)
	if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
		message(STATUS "static-provider: not with link-time optimisation")
		return()
	endif()
	set(made ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libsimhca-rdmav${SIMHCA_PABI_VERSION}.a)
	add_custom_command(OUTPUT ${made}
		COMMAND ${PROJECT_SOURCE_DIR}/cmake/static-provider ${made} ${LIBIBVERBS_A}
			$<TARGET_FILE:simhca-provider-static>
		DEPENDS simhca-provider-static ${PROJECT_SOURCE_DIR}/cmake/static-provider VERBATIM)
	add_custom_target(static-provider DEPENDS ${made})
endfunction()
