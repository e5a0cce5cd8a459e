# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What other build systems and people find of an installed simhca; the parts install themselves.
include(CMakePackageConfigHelpers)

# pc_directory(VARIABLE DIR): DIR of GNUInstallDirs as a .pc file says it.
function(pc_directory variable dir)
	if(IS_ABSOLUTE "${dir}")
		set(${variable} "${dir}" PARENT_SCOPE)
	else()
		set(${variable} "\${prefix}/${dir}" PARENT_SCOPE)
	endif()
endfunction()

pc_directory(PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
pc_directory(PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
pc_directory(PC_BINDIR "${CMAKE_INSTALL_BINDIR}")
file(RELATIVE_PATH PC_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" PC_TO_PREFIX "${PC_TO_PREFIX}")
foreach(library simhca simhca-cq)
	configure_file(cmake/${library}.pc.in ${library}.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${library}.pc
		DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/simhca)
configure_package_config_file(cmake/simhcaConfig.cmake.in simhcaConfig.cmake
	INSTALL_DESTINATION ${package_dir}
	PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(simhcaConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/simhcaConfig.cmake
	${PROJECT_BINARY_DIR}/simhcaConfigVersion.cmake
	DESTINATION ${package_dir})

configure_file(cmake/InstallDocuments.cmake.in InstallDocuments.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/InstallDocuments.cmake)
file(GLOB pictures CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Documentation/*.svg)
install(FILES ${pictures} DESTINATION ${CMAKE_INSTALL_DOCDIR}/Documentation)
install(FILES COPYING DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY LICENSES examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# /usr/local/lib is searched by its cache alone. A staged install (DESTDIR) is not ours to search.
install(CODE [[
	if("$ENV{DESTDIR}" STREQUAL "")
		execute_process(COMMAND id -u OUTPUT_VARIABLE uid OUTPUT_STRIP_TRAILING_WHITESPACE)
		find_program(LDCONFIG ldconfig PATHS /sbin /usr/sbin)
		if(uid EQUAL 0 AND LDCONFIG)
			execute_process(COMMAND ${LDCONFIG})
		endif()
	endif()
]])
