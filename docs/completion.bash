# bash completion for thole(1). Made from the arguments that the tool has; docs/completion.bash is what it is made from.

# What each command takes: "option=kind" words; the kind of an option's value is "" where it has none.
declare -gA _thole_arguments=(
@arguments@
)

# Thole's own options, for --option: names, and "name=value" of those with choices.
_thole_names="@names@"
_thole_values="@values@"

# Print names of network interfaces that begin so. compgen -W would expand them, and run what is in them.
_thole_interfaces()
{
	local place
	for place in /sys/class/net/*; do
		[[ -e $place && ${place##*/} == "$1"* ]] && printf '%s\n' "${place##*/}"
	done
}

# Print what may stand for a value of this kind.
_thole_of_kind()
{
	case $1 in
	file) compgen -f -- "$2" ;;
	folder) compgen -d -- "$2" ;;
	host) compgen -A hostname -- "$2" ;;
	interface) _thole_interfaces "$2" ;;
	command) compgen -c -f -- "$2" ;;
	option)
		if [[ $2 == *=* ]]; then
			compgen -W "$_thole_values" -- "$2"
		else
			compgen -S = -W "$_thole_names" -- "$2"
		fi
		;;
	choice:*)
		local choices=${1#choice:}
		compgen -W "${choices//,/ }" -- "$2"
		;;
	esac
}

# Print what may stand for the last of the words.
_thole_candidates()
{
	local -a words=("$@")
	local last=$(($# - 1)) command= kind= index pair
	local current=${words[last]} before=

	for ((index = 1; index < last; index++)); do
		[[ ${words[index]} == -* ]] && continue
		command=${words[index]}
		break
	done
	if [[ -z $command ]]; then
		compgen -W "@commands@ --help --version" -- "$current"
		return
	fi
	# Behind the launcher of `thole run` all words are the launcher's and the program's.
	for ((index++; index < last; index++)); do
		kind=
		for pair in ${_thole_arguments[$command]-}; do
			[[ $pair == "${words[index]}="* ]] && kind=${pair#*=}
		done
		if [[ ${words[index]} == -* ]]; then
			[[ -n $kind ]] && ((index++))
		elif [[ $command == run ]]; then
			compgen -f -- "$current"
			return
		fi
	done
	before=${words[last - 1]}
	if [[ $current == --*=* ]]; then
		before=${current%%=*}
		current=${current#*=}
	fi
	for pair in ${_thole_arguments[$command]-}; do
		if [[ $pair == "$before="?* && $before == -* ]]; then
			_thole_of_kind "${pair#*=}" "$current"
			return
		fi
	done
	for pair in ${_thole_arguments[$command]-}; do
		[[ $pair == -* ]] && compgen -W "${pair%%=*}" -- "$current"
		[[ $pair == =* && $current != -* ]] && _thole_of_kind "${pair#=}" "$current"
	done
}

# bash breaks words at = and : too, and wants only what follows the last of these.
_thole()
{
	local line=${COMP_LINE:0:COMP_POINT} IFS=$' \t\n'
	local -a words
	local current prefix

	read -ra words <<<"$line"
	[[ $line == *[[:space:]] ]] && words+=("")
	current=${words[${#words[@]} - 1]}
	prefix=${current%"${current##*[=:]}"}
	IFS=$'\n'
	COMPREPLY=($(IFS=$' \t\n'; _thole_candidates "${words[@]}"))
	# What stands behind --option= is what was completed.
	prefix=${prefix#--*=}
	COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
	[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	return 0
}

complete -o filenames -F _thole thole
