# Install script for directory: /tmp/w/k1/providers/simhca

# Set the install prefix
if(NOT DEFINED CMAKE_INSTALL_PREFIX)
  set(CMAKE_INSTALL_PREFIX "/usr/local")
endif()
string(REGEX REPLACE "/$" "" CMAKE_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")

# Set the install configuration name.
if(NOT DEFINED CMAKE_INSTALL_CONFIG_NAME)
  if(BUILD_TYPE)
    string(REGEX REPLACE "^[^A-Za-z0-9_]+" ""
           CMAKE_INSTALL_CONFIG_NAME "${BUILD_TYPE}")
  else()
    set(CMAKE_INSTALL_CONFIG_NAME "Release")
  endif()
  message(STATUS "Install configuration: \"${CMAKE_INSTALL_CONFIG_NAME}\"")
endif()

# Set the component getting installed.
if(NOT CMAKE_INSTALL_COMPONENT)
  if(COMPONENT)
    message(STATUS "Install component: \"${COMPONENT}\"")
    set(CMAKE_INSTALL_COMPONENT "${COMPONENT}")
  else()
    set(CMAKE_INSTALL_COMPONENT)
  endif()
endif()

# Install shared libraries without execute permission?
if(NOT DEFINED CMAKE_INSTALL_SO_NO_EXE)
  set(CMAKE_INSTALL_SO_NO_EXE "1")
endif()

# Is this installation the result of a crosscompile?
if(NOT DEFINED CMAKE_CROSSCOMPILING)
  set(CMAKE_CROSSCOMPILING "FALSE")
endif()

# Set default install directory permissions.
if(NOT DEFINED CMAKE_OBJDUMP)
  set(CMAKE_OBJDUMP "/usr/bin/objdump")
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" TYPE PROGRAM RENAME "libsimhca.so.1.0.0" FILES "/tmp/w/k1/brel/lib/libsimhca.so.1")
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" TYPE FILE FILES
    "/tmp/w/k1/brel/providers/simhca/installed/libsimhca.so.1"
    "/tmp/w/k1/brel/lib/libsimhca.so"
    )
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/libibverbs" TYPE FILE FILES "/tmp/w/k1/brel/providers/simhca/installed/libsimhca-rdmav34.so")
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/include/infiniband" TYPE FILE FILES "/tmp/w/k1/providers/simhca/simhcadv.h")
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/share/man/man3" TYPE FILE FILES
    "/tmp/w/k1/man/simhcadv_alloc_cq.3"
    "/tmp/w/k1/man/simhcadv_alloc_mr.3"
    "/tmp/w/k1/man/simhcadv_alloc_page_list.3"
    "/tmp/w/k1/man/simhcadv_create_qp.3"
    "/tmp/w/k1/man/simhcadv_free_cq.3"
    "/tmp/w/k1/man/simhcadv_free_page_list.3"
    "/tmp/w/k1/man/simhcadv_is_supported.3"
    "/tmp/w/k1/man/simhcadv_post_fast_reg.3"
    "/tmp/w/k1/man/simhcadv_post_read_with_inv.3"
    "/tmp/w/k1/man/simhcadv_process_cq_direct.3"
    "/tmp/w/k1/man/simhcadv_qp_ex_from_ibv_qp_ex.3"
    "/tmp/w/k1/man/simhcadv_query_device.3"
    "/tmp/w/k1/man/simhcadv_query_mr.3"
    "/tmp/w/k1/man/simhcadv_req_notify_cq.3"
    "/tmp/w/k1/man/simhcadv_update_key.3"
    "/tmp/w/k1/man/simhcadv_wr_fast_reg.3"
    "/tmp/w/k1/man/simhcadv_wr_read_with_inv.3"
    "/tmp/w/k1/brel/providers/simhca/installed/simhcadv_query_odp.3"
    )
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/share/man/man7" TYPE FILE FILES "/tmp/w/k1/man/simhcadv.7")
endif()

if(CMAKE_INSTALL_COMPONENT STREQUAL "Unspecified" OR NOT CMAKE_INSTALL_COMPONENT)
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/etc/libibverbs.d" TYPE FILE FILES "/tmp/w/k1/providers/simhca/simhca.driver")
endif()

