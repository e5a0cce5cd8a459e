# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# fish completion for simhca(1), which says itself what a word can be: tools/complete.c.

function __simhca_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct | string replace -r "^['\"]" '')
    set -l answer ($before[1] complete $before[2..] "$typed" 2>/dev/null)
    set -l value (string replace -r '^--[^=]*=' '' -- $typed)
    set -l option (string replace -r '[^=]*$' '' -- (string match -r '^--[^=]*=' -- $typed))
    switch "$answer[1]"
        case words
            printf '%s\n' $answer[2..]
        case files
            printf "$option%s\n" (__fish_complete_path $value)
        case directories
            printf "$option%s\n" (__fish_complete_directories $value '')
        case 'command *'
            set -l first (math (string replace 'command ' '' $answer[1]) + 2)
            set -l command ''
            test $first -gt (count $before)
            or set command (string escape -- $before[$first..]) ''
            set command (string join ' ' -- $command)
            complete -C "$command$typed"
    end
end

complete -c simhca -f -a '(__simhca_complete)'
