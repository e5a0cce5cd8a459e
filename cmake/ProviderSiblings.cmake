# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Providers for every other layout of libibverbs' private ABI than that of the installed library, compiled here: with
# the installed verbs.h as another release has it, and against a library that has nothing but the symbols.

# Of each layout its first release; of those of one number (34, 59) all but one file have that in their name.
set(SIMHCA_LAYOUT_RELEASES 39 44 45 57 59 62 64 65)

set(atomic_write_parameters
	"struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr")
set(flush_parameters
	"struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level")

# The front of struct verbs_context, the newest first, as "release:member".
set(context_members
	"64:void (*free_buf)(struct ibv_buf *buf)"
	"64:void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)"
	"62:int (*dm_export_dmabuf_fd)(struct ibv_dm *dm)"
	"59:struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)"
	"59:int (*dealloc_dmah)(struct ibv_dmah *dmah)"
	"59:struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context, struct ibv_dmah_init_attr *attr)")

# What verbs-since-57.h has.
set(types_since_57 ibv_dmah ibv_mr_init_attr ibv_mr_init_attr_mask ibv_tph_mem_type ibv_dmah_init_attr ibv_dmah_init_attr_mask
	ibv_qp_attach_comp_cntr_op ibv_comp_cntr_caps ibv_comp_cntr ibv_comp_cntr_type ibv_comp_cntr_init_attr
	ibv_qp_attach_comp_cntr_attr)

# The installed verbs.h, and in another directory what it becomes for releases from `first` on.
function(simhca_verbs_header installed first directory)
	file(READ ${installed} text)
	string(REPLACE ";" "<semicolon>" text "${text}") # a list's otherwise
	foreach(member atomic_write flush)
		string(REGEX REPLACE "static inline void ibv_wr_${member}\\([^}]*}\n" "" text "${text}")
		string(REGEX REPLACE "void \\(\\*wr_${member}\\)\\([^)]*\\)<semicolon>" "" text "${text}")
	endforeach()
	set(added "")
	if(first GREATER_EQUAL 44)
		string(APPEND added "\tvoid (*wr_atomic_write)(${atomic_write_parameters})<semicolon>\n")
	endif()
	if(first GREATER_EQUAL 45)
		string(APPEND added "\tvoid (*wr_flush)(${flush_parameters})<semicolon>\n")
	endif()
	string(REGEX REPLACE "(void \\(\\*wr_abort\\)\\([^)]*\\)<semicolon>\n)" "\\1${added}" changed "${text}")
	if(changed STREQUAL text AND added)
		message(FATAL_ERROR "${installed}: struct ibv_qp_ex has no wr_abort")
	endif()

	set(added "")
	foreach(member IN LISTS context_members)
		string(REGEX MATCH "^([0-9]+):(.*\\(\\*([a-z_]+)\\).*)$" all "${member}")
		if(first GREATER_EQUAL CMAKE_MATCH_1)
			string(APPEND added "\t${CMAKE_MATCH_2}<semicolon>\n")
		endif()
		string(REGEX REPLACE "\n[^\n(]*\\(\\*${CMAKE_MATCH_3}\\)\\([^)]*\\)<semicolon>" "" changed "${changed}")
	endforeach()
	foreach(type IN LISTS types_since_57)
		string(REGEX REPLACE "\n(struct|enum) +${type} {[^}]*}<semicolon>" "" changed "${changed}")
	endforeach()
	string(REGEX REPLACE "(\nstruct verbs_context {\n)" "\\1${added}" text "${changed}")
	if(text STREQUAL changed AND added)
		message(FATAL_ERROR "${installed}: there is no struct verbs_context")
	endif()
	string(REGEX REPLACE "(\n#include <infiniband/verbs_api.h>\n)" "\\1#include \"verbs-since-57.h\"\n" changed "${text}")
	if(changed STREQUAL text)
		message(FATAL_ERROR "${installed}: it does not include verbs_api.h")
	endif()

	# Enumerators, whose values are the kernel's.
	if(NOT text MATCHES "IBV_QP_EX_WITH_ATOMIC_WRITE")
		string(APPEND changed "#define IBV_QP_EX_WITH_ATOMIC_WRITE (1 << 12)\n")
	endif()
	if(NOT text MATCHES "IBV_QP_EX_WITH_FLUSH")
		string(APPEND changed "#define IBV_QP_EX_WITH_FLUSH (1 << 11)\n")
	endif()
	string(REPLACE "<semicolon>" ";" changed "${changed}")
	file(MAKE_DIRECTORY ${directory}/infiniband)
	file(CONFIGURE OUTPUT ${directory}/infiniband/verbs.h CONTENT "${changed}" @ONLY)
endfunction()

# A library to link with that calls itself libibverbs.so.1, and has of it what a provider calls, with the versions
# that these symbols have in a library of that private ABI.
function(simhca_symbols_of_libibverbs version target)
	if(TARGET ${target})
		return()
	endif()
	set(directory ${CMAKE_CURRENT_BINARY_DIR}/symbols-${version})
	set(private __verbs_log _verbs_init_and_alloc_context ibv_read_ibdev_sysfs_file verbs_register_driver_${version}
		verbs_set_ops verbs_uninit_context)
	set(code "")
	foreach(symbol ibv_qp_to_qp_ex ${private})
		string(APPEND code "void ${symbol}(void);\nvoid ${symbol}(void)\n{\n}\n\n")
	endforeach()
	string(REPLACE ";" "; " private "${private}")
	file(CONFIGURE OUTPUT ${directory}/symbols.c CONTENT "${code}" @ONLY)
	file(CONFIGURE OUTPUT ${directory}/symbols.map @ONLY CONTENT
		"IBVERBS_1.6 { global: ibv_qp_to_qp_ex; local: *; };\nIBVERBS_PRIVATE_${version} { global: ${private}; };\n")
	add_library(${target} SHARED EXCLUDE_FROM_ALL ${directory}/symbols.c)
	# Its symbols are all that it is for.
	target_compile_options(${target} PRIVATE -fno-lto -fvisibility=default -Wno-builtin-declaration-mismatch)
	target_link_options(${target} PRIVATE -fno-lto -Wl,-soname,libibverbs.so.1 -Wl,--version-script=${directory}/symbols.map)
	set_target_properties(${target} PROPERTIES NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${directory})
endfunction()

# simhca_add_siblings(SOURCES..): a target for each layout that the provider of this build has not, and `siblings` for all.
function(simhca_add_siblings)
	add_custom_target(siblings)
	simhca_releases_alike("${IBVERBS_VERSION}" own end)
	find_path(IBVERBS_HEADERS infiniband/verbs.h HINTS ${IBVERBS_INCLUDE_DIRS} REQUIRED)
	if(own EQUAL 49) # as 45, for a provider
		set(own 45)
	endif()
	simhca_layout_of_release(${own} own_layout own_version)
	# Each is compiled as few files, which takes less than half of the time. These have static names, or macros, that
	# another file has as well.
	list(TRANSFORM ARGN REPLACE ".*/" "" OUTPUT_VARIABLE names)
	set(apart lint_regions.c lint_threads.c lock.c page_list.c process_map.c qp.c segments.c simhca-request.c simhca-slot.c
		simhca-sockets.c srq.c watcher.c wr_ex.c)
	set(together "")
	foreach(name source IN ZIP_LISTS names ARGN)
		if(name IN_LIST apart)
			set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
		else()
			list(APPEND together ${source})
		endif()
	endforeach()
	# Each build with tests compiles these files as one, so a static name that two of them have fails there, and not
	# first in a package.
	if(BUILD_TESTING AND NOT SIMHCA_SANITIZE)
		add_library(provider-together OBJECT ${together})
		set_target_properties(provider-together PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
		target_compile_options(provider-together PRIVATE -O0 -U_FORTIFY_SOURCE)
		target_compile_definitions(provider-together PRIVATE $<TARGET_PROPERTY:simhca-provider,COMPILE_DEFINITIONS>)
		target_include_directories(provider-together PRIVATE $<TARGET_PROPERTY:simhca-provider,INCLUDE_DIRECTORIES>)
		target_link_libraries(provider-together PRIVATE simhca_flags)
	endif()
	foreach(first IN LISTS SIMHCA_LAYOUT_RELEASES)
		if(own EQUAL first)
			continue()
		endif()
		simhca_layout_of_release(${first} layout version)
		# The one that libibverbs loads of a number: our own, or else the newest.
		set(name libsimhca-rdmav${version})
		set(is_sibling "")
		if(version EQUAL own_version OR NOT first MATCHES "^(45|57|62|64|65)$")
			string(APPEND name -${first})
			set(is_sibling SIMHCA_IS_SIBLING)
		endif()
		set(sibling simhca-provider-${first})
		set(headers ${CMAKE_CURRENT_BINARY_DIR}/rdma-core-${first})
		simhca_verbs_header(${IBVERBS_HEADERS}/infiniband/verbs.h ${first} ${headers})
		simhca_symbols_of_libibverbs(${version} libibverbs-symbols-${version})
		add_library(${sibling} MODULE ${ARGN})
		set_target_properties(${sibling} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
		add_dependencies(siblings ${sibling})
		target_compile_definitions(${sibling} PRIVATE SIMHCA_PABI=${layout} ${is_sibling}
			$<$<BOOL:${SIMHCA_HAVE_VALGRIND}>:SIMHCA_HAVE_VALGRIND>)
		if(first GREATER_EQUAL 44)
			target_compile_definitions(${sibling} PRIVATE SIMHCA_HAVE_ATOMIC_WRITE)
		endif()
		if(first GREATER_EQUAL 45)
			target_compile_definitions(${sibling} PRIVATE SIMHCA_HAVE_FLUSH)
		endif()
		target_include_directories(${sibling} BEFORE PRIVATE ${headers}
			${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/libsimhca ${cq_header} ${IBVERBS_INCLUDE_DIRS})
		target_link_libraries(${sibling} PRIVATE simhca_step simhca_flags libibverbs-symbols-${version} Threads::Threads)
		simhca_for_oldest_glibc(${sibling} -l:libdl.so.2 -l:libpthread.so.0)
		set(map ${CMAKE_CURRENT_SOURCE_DIR}/sibling.map)
		target_link_options(${sibling} PRIVATE -Wl,--version-script=${map} -Wl,-z,nodelete -Wl,-z,defs)
		set_target_properties(${sibling} PROPERTIES PREFIX "" LINK_DEPENDS ${map} SKIP_BUILD_RPATH ON
			OUTPUT_NAME ${name} BUILD_WITH_INSTALL_RPATH ON)
		if(SIMHCA_SIBLINGS)
			install(TARGETS ${sibling} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simhca)
		else()
			set_target_properties(${sibling} PROPERTIES EXCLUDE_FROM_ALL ON)
		endif()
	endforeach()
endfunction()
