# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Which layout cmake chooses for a libibverbs, and what it says of one that it cannot know. Run by
# cmake -DDIRECTORY=DIR -P; with -DLIBRARY=FILE -DVERSION=N it chooses for that one.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/ProviderLayout.cmake)

if(LIBRARY)
	simhca_layout_of_library(${LIBRARY} "${VERSION}" layout)
	message(STATUS "layout ${layout}")
	return()
endif()

# expect(NODE VERSION STATUS TEXT...): all of the texts, however cmake broke the lines.
function(expect node version status)
	file(WRITE ${DIRECTORY}/library.txt "some\n${node}\nmore\n")
	execute_process(COMMAND ${CMAKE_COMMAND} -DLIBRARY=${DIRECTORY}/library.txt
		-DVERSION=${version} -P ${CMAKE_CURRENT_LIST_FILE}
		RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
	string(REGEX REPLACE "[ \n]+" " " said "${said}")
	foreach(text IN LISTS ARGN)
		string(FIND "${said}" "${text}" at)
		if(at EQUAL -1 OR NOT result EQUAL status)
			message(SEND_ERROR "${node} ${version}: ${result}, not ${status} with \"${text}\": ${said}")
		endif()
	endforeach()
endfunction()

foreach(release RANGE 39 65)
	set(layout 34)
	set(number 34)
	if(release GREATER_EQUAL 65)
		set(layout 65)
		set(number 65)
	elseif(release GREATER_EQUAL 64)
		set(layout 64)
		set(number 64)
	elseif(release GREATER_EQUAL 62)
		set(layout 62)
		set(number 59)
	elseif(release GREATER_EQUAL 59)
		set(layout 59)
		set(number 59)
	elseif(release GREATER_EQUAL 57)
		set(layout 57)
		set(number 57)
	endif()
	expect(IBVERBS_PRIVATE_${number} 1.14.${release}.0 0 "layout ${layout}")
endforeach()
# A newer release that kept the number.
expect(IBVERBS_PRIVATE_65 1.19.66.0 0 "layout 65")
# One that did not: advice that works.
expect(IBVERBS_PRIVATE_66 1.19.66.0 1 "rdma-core 66" "private ABI 66" "rdma-core 39 to 65"
	"Take a newer simhca" "Debian 12 and 13" examples/container/Dockerfile)
expect(IBVERBS_PRIVATE_34 1.14.38.1 1 "rdma-core 38" "39 or newer")
expect(IBVERBS_PRIVATE_59 1.14.44.0 1 "private ABI 59" "rdma-core 44, which has 34"
	PKG_CONFIG_PATH -DIBVERBS_LIBRARY)
expect(nothing 1.14.44.0 1 "not the libibverbs of rdma-core" libibverbs-dev)
expect(IBVERBS_PRIVATE_34 head 1 "\"head\"" PKG_CONFIG_PATH)

# The releases that a package of the provider fits: "first:release:end" of libibverbs' version.
foreach(range 39:39:44 39:43:44 44:44:45 45:48:49 49:56:57 57:58:59 59:61:62 62:63:64 64:64:65 65:65:66)
	string(REPLACE ":" ";" range ${range})
	list(GET range 1 release)
	simhca_releases_alike("1.14.${release}.0" first end)
	if(NOT "${first};${release};${end}" STREQUAL "${range}")
		message(SEND_ERROR "release ${release}: ${first} to before ${end}, not ${range}")
	endif()
endforeach()
