# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# verbs.h as another release has it, as far as a provider depends on it: of the releases with private ABI
# 34 that is struct ibv_qp_ex, which has wr_atomic_write since 44, and wr_flush since 45.

set(atomic_write_parameters
	"struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr")
set(flush_parameters
	"struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level")

# The installed verbs.h, and in another directory what it becomes for releases from `first` on.
function(simhca_verbs_header installed first directory)
	file(READ ${installed} text)
	foreach(member atomic_write flush)
		string(REGEX REPLACE "static inline void ibv_wr_${member}\\([^}]*}\n" "" text "${text}")
		string(REGEX REPLACE "void \\(\\*wr_${member}\\)\\([^;]*;" "" text "${text}")
	endforeach()
	set(added "")
	if(first GREATER_EQUAL 44)
		string(APPEND added "\tvoid (*wr_atomic_write)(${atomic_write_parameters});\n")
	endif()
	if(first GREATER_EQUAL 45)
		string(APPEND added "\tvoid (*wr_flush)(${flush_parameters});\n")
	endif()
	string(REGEX REPLACE "(void \\(\\*wr_abort\\)\\([^;]*;\n)" "\\1${added}" changed "${text}")
	if(changed STREQUAL text AND added)
		message(FATAL_ERROR "${installed}: struct ibv_qp_ex has no wr_abort")
	endif()
	# Enumerators, whose values are the kernel's.
	if(NOT text MATCHES "IBV_QP_EX_WITH_ATOMIC_WRITE")
		string(APPEND changed "#define IBV_QP_EX_WITH_ATOMIC_WRITE (1 << 12)\n")
	endif()
	if(NOT text MATCHES "IBV_QP_EX_WITH_FLUSH")
		string(APPEND changed "#define IBV_QP_EX_WITH_FLUSH (1 << 13)\n")
	endif()
	file(MAKE_DIRECTORY ${directory}/infiniband)
	file(CONFIGURE OUTPUT ${directory}/infiniband/verbs.h CONTENT "${changed}" @ONLY)
endfunction()
