# Completion for PROGRAM in bash, 3.2 or newer: PROGRAM itself says what can stand there.
_PROGRAM() {
    local line=${COMP_LINE:0:COMP_POINT} gap words i n=-1 last= tab=$'\t'
    # COMP_WORDS is split at = and : as well. What has no blank between is one word.
    words=()
    for ((i = 0; i < COMP_CWORD; i++)); do
        gap=${line%%[![:space:]]*} line=${line#"${line%%[![:space:]]*}"}
        [[ $i -gt 0 && -z $gap ]] || n=$((n + 1))
        words[n]=${words[n]-}${COMP_WORDS[i]}
        line=${line#"${COMP_WORDS[i]}"}
    done
    last=${line#"${line%%[![:space:]]*}"} # up to the cursor
    if [[ $last == "$line" ]]; then # no blank before it
        last=${words[n]}$last
        unset "words[n]"
    fi
    for i in "${!words[@]}"; do
        [[ ${words[i]} != '~/'* ]] || words[i]=$HOME/${words[i]:2}
    done
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :0) ;;
        :4) compopt +o default 2>/dev/null ;; # no file names
        *) COMPREPLY+=("${line%%$tab*}") ;;
        esac
    done < <("${words[@]:0:1}" __complete "${words[@]:1}" "$last" 2>/dev/null)
}
complete -o default -F _PROGRAM PROGRAM
