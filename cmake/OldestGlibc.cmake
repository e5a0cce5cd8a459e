# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# simhca_for_oldest_glibc(TARGET LIBRARY..): a library that containers have, whose glibc may be older than ours: client/oldest-glibc.h.
# LIBRARY: what it needs of libc where that was in libraries of its own.
function(simhca_for_oldest_glibc target)
	if(SIMHCA_SANITIZE) # no container has that
		return()
	endif()
	target_compile_options(${target} PRIVATE "SHELL:-include ${PROJECT_SOURCE_DIR}/client/oldest-glibc.h")
	# There they are where these functions are; since glibc 2.34 they are empty.
	get_target_property(type ${target} TYPE)
	if(NOT type MATCHES "^(OBJECT|STATIC)_LIBRARY$")
		target_link_options(${target} PRIVATE -Wl,--push-state,--no-as-needed
			${ARGN} -Wl,--pop-state)
	endif()
endfunction()
