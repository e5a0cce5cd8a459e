# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# simhca_together(TARGET [APART SOURCE...]): with SIMHCA_TOGETHER each directory of the target's sources is compiled as one
# file, which takes less than half of the time, as headers are read once for all. Apart are those that have a static name,
# or a macro, that another file of their directory has as well; those that tests compile in a form of their own; and those with a
# function that tests wrap, which a linker does to calls from other files alone. Files that miss a header fail in the other trees.
function(simhca_together target)
	cmake_parse_arguments(PARSE_ARGV 1 together "" "" "APART")
	if(NOT SIMHCA_TOGETHER)
		return()
	endif()
	get_target_property(sources ${target} SOURCES)
	foreach(source IN LISTS together_APART)
		if(NOT source IN_LIST sources)
			message(FATAL_ERROR "simhca_together(${target}): ${source} is none of its sources")
		endif()
	endforeach()
	list(REMOVE_ITEM sources ${together_APART})
	foreach(source IN LISTS sources)
		get_filename_component(directory ${source} DIRECTORY)
		string(MAKE_C_IDENTIFIER "${directory}" group)
		set_source_files_properties(${source} PROPERTIES UNITY_GROUP _${group})
	endforeach()
	set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
