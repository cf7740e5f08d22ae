#compdef PROGRAM
# Completion for PROGRAM in zsh: PROGRAM itself says what can stand there.
_PROGRAM() {
    local line
    local -a before candidates
    before=("${(@Q)words[1,CURRENT-1]}")
    before=("${(@)before/#\~\//$HOME/}")
    for line in "${(@f)$("$before[1]" __complete "${(@)before[2,-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
        case $line in
        (:0) # the value of a flag is behind its =
            if (( ! $#candidates )); then
                [[ $PREFIX != --*=* ]] || compset -P '*='
                _files
                return
            fi ;;
        (:4) ;;
        (*$'\t'*) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        (?*) candidates+=("${line//:/\\:}") ;;
        esac
    done
    _describe PROGRAM candidates
}
if [[ $funcstack[1] == _PROGRAM ]]; then # loaded as a file of $fpath, by its first use
    _PROGRAM "$@"
else
    compdef _PROGRAM PROGRAM
fi
