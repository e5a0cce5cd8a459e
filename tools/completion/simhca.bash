# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# bash completion for simhca(1), which says itself what a word can be: tools/complete.c.

# The words of COMP_WORDS from $1 on are another command.
_simhca_command() {
	if declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset "$1"
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif [ "$COMP_CWORD" -eq "$1" ]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$2")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
	fi
}

_simhca() {
	local tool=$1 word value words=() places=() kind answer i
	COMPREPLY=()
	# "--mtu=256" is three words of bash's; and a word that is not ended has its quote.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [ ${#words[@]} -gt 0 ] && { [[ ${words[-1]} == --*= ]] ||
			[[ ${words[-1]} == --* && $word == = ]]; }; then
			words[-1]+=$word
			continue
		fi
		case $word in
		\'* | \"*) word=${word:1} ;;
		esac
		words+=("$word")
		places+=("$i")
	done
	mapfile -t answer < <("$tool" complete "${words[@]}" 2>/dev/null)
	kind=${answer[0]-}
	word=${words[-1]}
	value=${word#--*=}
	case $kind in
	words)
		answer=("${answer[@]:1}")
		answer=("${answer[@]%%$'\t'*}")
		[ "$value" = "$word" ] || answer=("${answer[@]#"${word%"$value"}"}")
		COMPREPLY=("${answer[@]}")
		# What goes on needs no space: a rule's key.
		[ ${#COMPREPLY[@]} -ne 1 ] || [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
		;;
	files | directories)
		compopt -o filenames 2>/dev/null # a slash after directories
		if [ "$kind" = directories ]; then
			mapfile -t COMPREPLY < <(compgen -d -- "$value")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$value")
		fi
		;;
	command*) _simhca_command "${places[${kind#command }]}" "$word" ;;
	esac
}
complete -F _simhca simhca
