# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# find_package(simhca): the target simhca::cq for programs with completion callbacks, and simhca::simhca,
# which has direct verbs beside them.

####### Expanded from @PACKAGE_INIT@ by configure_package_config_file() #######
####### Any changes to this file will be overwritten by the next CMake run ####
####### The input file was simhcaConfig.cmake.in                            ########

get_filename_component(PACKAGE_PREFIX_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../" ABSOLUTE)

macro(set_and_check _var _file)
  set(${_var} "${_file}")
  if(NOT EXISTS "${_file}")
    message(FATAL_ERROR "File or directory ${_file} referenced by variable ${_var} does not exist !")
  endif()
endmacro()

macro(check_required_components _NAME)
  foreach(comp ${${_NAME}_FIND_COMPONENTS})
    if(NOT ${_NAME}_${comp}_FOUND)
      if(${_NAME}_FIND_REQUIRED_${comp})
        set(${_NAME}_FOUND FALSE)
      endif()
    endif()
  endforeach()
endmacro()

####################################################################################

include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
find_dependency(Threads)
pkg_check_modules(SIMHCA_IBVERBS QUIET IMPORTED_TARGET libibverbs)
if(NOT SIMHCA_IBVERBS_FOUND)
	set(simhca_FOUND FALSE)
	set(simhca_NOT_FOUND_MESSAGE "libibverbs.pc is missing (libibverbs-dev, rdma-core-devel)")
	return()
endif()

foreach(library simhca-cq simhca)
	string(REPLACE simhca- "" target simhca::${library})
	if(TARGET ${target})
		continue()
	endif()
	add_library(${target} SHARED IMPORTED)
	set_target_properties(${target} PROPERTIES
		IMPORTED_LOCATION "${PACKAGE_PREFIX_DIR}/lib/lib${library}.so.1"
		IMPORTED_SONAME lib${library}.so.1
		INTERFACE_INCLUDE_DIRECTORIES "${PACKAGE_PREFIX_DIR}/include"
		INTERFACE_LINK_LIBRARIES "PkgConfig::SIMHCA_IBVERBS;Threads::Threads")
endforeach()
target_link_libraries(simhca::simhca INTERFACE simhca::cq)
check_required_components(simhca)
