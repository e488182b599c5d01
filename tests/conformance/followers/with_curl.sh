#!/usr/bin/env bash
# Follows a stream with `curl -N`: prints each message's data as a line, and resumes with the id of the last one
# whose end it has seen. The token comes from the environment, since arguments can be read by everybody.
set -euo pipefail
url=$1 last='' data='' id=''
while :; do
  while IFS= read -r line; do
    line=${line%$'\r'}
    case $line in
      'id: '*) id=${line#id: } ;;
      'data: '*) data=${line#data: } ;;
      'retry: '*) printf '{"opened":true}\n' ;;
      '')
        [ -z "$data" ] || printf '%s\n' "$data"
        [ -z "$id" ] || last=$id
        data='' id=''
        ;;
    esac
  done < <(
    # No byte for 40 s is a drop.
    curl -N --silent --fail --speed-limit 1 --speed-time 40 --header 'Accept: text/event-stream' \
      ${last:+--header "Last-Event-ID: $last"} \
      --config <(printf 'header = "Authorization: Bearer %s"\n' "$TEAMLAMP_TOKEN") "$url" || true
  )
  # What was cut off before its empty line was no message.
  data='' id=''
  sleep 1 # as `retry: 1000` asks
done
