# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Suites of tests as ctest knows them: a part of a suite is a test, its suite a label.
#
#   add_part(NAME SUITES suite.. CLASS class COST seconds LIMIT seconds [FORM short|long] [NEEDS fixture..]
#            [UNDER sanitizer] [DEVICE option..] [SET NAME=VALUE..] [OPTIONS option-of-part.py..]
#            COMMAND kind argument..)
#   add_pytest(NAME ... TESTS argument-of-pytest..)
#
# COMMAND is one that tests/suites/part.py knows. COST says which of them begins first, LIMIT when a part is
# ended. The FORM short is left to runs of everything, long to those that name their suite (ctest -C long).
#
# CLASS says beside what a part may run, by a resource that each class has slots of:
#   pairs    programs that poll for each other: beside more of them they would wait for their turn
#   waiting  what mostly does
#   busy     other things, one for each CPU; at a low priority
#   build    a compiler
#   alone    what judges how long others wait: beside nothing, when all else is done
#   idle     beside those, what computes and may wait: with what they leave of the CPUs
#   whole    nothing beside it
cmake_host_system_information(RESULT cpus QUERY NUMBER_OF_LOGICAL_CORES)
set(pairs 1)
if(cpus GREATER 3)
	math(EXPR pairs "${cpus} / 2")
endif()
set(slots_of_pairs ${pairs})
set(slots_of_waiting 3)
set(slots_of_busy ${cpus})
set(slots_of_build 1)
set(slots_of_idle ${cpus})
set(resources "")
foreach(class pairs waiting busy build idle)
	list(APPEND resources "\"${class}\": [{\"id\": \"0\", \"slots\": ${slots_of_${class}}}]")
endforeach()
list(JOIN resources ", " resources)
file(WRITE ${PROJECT_BINARY_DIR}/resources.json
	"{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [{${resources}}]}\n")
set(options_of_busy --nice 10)
set(options_of_build --nice 5)
set(options_of_idle --idle)

function(add_part name)
	cmake_parse_arguments(PARSE_ARGV 1 part "" "CLASS;COST;LIMIT;FORM;UNDER"
		"SUITES;NEEDS;SETS_UP;DEVICE;SET;OPTIONS;COMMAND")
	set(options --name ${name} --limit ${part_LIMIT} ${options_of_${part_CLASS}} ${part_OPTIONS})
	if(part_UNDER)
		list(APPEND options --under ${part_UNDER})
	endif()
	if(part_DEVICE)
		list(JOIN part_DEVICE " " device)
		list(APPEND options "--device=${device}")
	endif()
	foreach(pair IN LISTS part_SET)
		list(APPEND options --set ${pair})
	endforeach()
	set(configurations "")
	if(part_FORM STREQUAL long)
		set(configurations CONFIGURATIONS long)
	endif()
	add_test(NAME ${name} ${configurations} COMMAND ${SIMHCA_TEST_PYTHON}
		${PROJECT_SOURCE_DIR}/tests/suites/part.py ${options} ${part_COMMAND})
	math(EXPR timeout "${part_LIMIT} + 90")
	set(labels ${part_SUITES})
	if(part_FORM STREQUAL short)
		list(APPEND labels short)
	endif()
	set_tests_properties(${name} PROPERTIES LABELS "${labels}" COST ${part_COST} TIMEOUT ${timeout}
		SKIP_RETURN_CODE 77)
	if(part_NEEDS)
		set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED "${part_NEEDS}")
	endif()
	if(part_CLASS STREQUAL whole)
		set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
	elseif(part_CLASS STREQUAL alone)
		set_tests_properties(${name} PROPERTIES RESOURCE_GROUPS
			"pairs:${slots_of_pairs},waiting:${slots_of_waiting},busy:${slots_of_busy},build:1")
	else()
		set_tests_properties(${name} PROPERTIES RESOURCE_GROUPS "${part_CLASS}:1")
	endif()
	set_property(GLOBAL APPEND PROPERTY SIMHCA_PARTS_${part_CLASS} ${name})
endfunction()

function(add_pytest name)
	cmake_parse_arguments(PARSE_ARGV 1 pytest "" "" "TESTS")
	add_part(${name} ${pytest_UNPARSED_ARGUMENTS} COMMAND pytest ${pytest_TESTS})
endfunction()

# add_build(PRESET [TARGET]...): what makes a tree for the parts that need it; its fixture has its name.
function(add_build preset)
	add_part(build-${preset} SUITES build CLASS build COST 2000 LIMIT 3000 COMMAND build ${preset} ${ARGN})
	set_tests_properties(build-${preset} PROPERTIES FIXTURES_SETUP ${preset})
endfunction()

# After the last part: those that wait for all else.
function(order_parts)
	set(before "")
	foreach(class pairs waiting busy build)
		get_property(parts GLOBAL PROPERTY SIMHCA_PARTS_${class})
		list(APPEND before ${parts})
	endforeach()
	foreach(class idle alone)
		get_property(parts GLOBAL PROPERTY SIMHCA_PARTS_${class})
		set_property(TEST ${parts} APPEND PROPERTY DEPENDS ${before})
	endforeach()
endfunction()
