# Completion for PROGRAM in fish: PROGRAM itself says what can stand there.
function __PROGRAM_complete
    set -l before (string replace -r -- '^~/' "$HOME/" (commandline -opc))
    set -l last (commandline -ct)
    set -l program $before[1]
    set -e before[1]
    for line in ($program __complete $before "$last" 2>/dev/null)
        switch $line
            case :0 # the value of a flag is behind its =
                set -l flag (string match -r -- '^--[^=]*=' "$last")
                for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$last"))
                    echo "$flag$path"
                end
            case :4
            case '*'
                echo $line
        end
    end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
