# Faults of files and disks. Sourced by ci/faults.sh.

# A disk with room for some checkpoints, which all stay.
fault_full_disk() {
  mkdir -p "$dir/full"
  if ! mount -t tmpfs -o size="$(random 1200 6000)k" tmpfs "$dir/full" 2>"$dir/log"; then
    skip "$(head -n 1 "$dir/log")"
    return
  fi
  run=$dir/full/run
  "$fascicle" train "${small[@]}" --grid "${grids[$(random 0 3)]}" --steps 30 --set training.keep_every=1 --out "$run" >"$dir/log" 2>&1 &
  job=$!
  finish $SECONDS
  [ "$status" -eq 1 ] || fail "status $status, needs 1"
  says "$run/checkpoints/.*found room for [0-9]+ bytes, needs [0-9]+"
  if compgen -G "$run/checkpoints/.writing-*" >/dev/null; then fail 'half a checkpoint is left'; fi
  intact 0
  if [ "$(newest)" -gt 0 ]; then
    mount -o remount,size=64m "$dir/full"
    resumes
  fi
  umount "$dir/full"
}

# some_file: a file of the newest checkpoint.
some_file() {
  local all=("$run/checkpoints/$(checkpoints | tail -n 1)"/*)
  file=${all[$(random 0 $((${#all[@]} - 1)))]}
}

fault_flipped_bit() {
  local byte found
  fresh
  some_file
  byte=$(random 0 $(($(stat -c %s "$file") - 1)))
  found=$(od -An -tu1 -j "$byte" -N 1 "$file" | tr -d ' ')
  printf '%b' "\\x$(printf %02x $((found ^ (1 << $(random 0 7)))))" | dd of="$file" bs=1 seek="$byte" conv=notrunc status=none
  refused 1 "$(basename "$file")" "$fascicle" train --resume "$run" --steps 8
  # The one before can be used in its place.
  says "step-[0-9]+ beside it is intact"
  rm -r "$(dirname "$file")"
  intact 4
  resumes
}

# A file of a checkpoint that is cut short, gone, or something else.
fault_spoilt_file() {
  local length kind
  fresh
  some_file
  length=$(stat -c %s "$file") kind=$(random 0 4)
  case $kind in
    0) truncate -s "$(random 0 $((length - 1)))" "$file" ;;
    1) rm "$file" ;;
    2) rm "$file" && mkdir "$file" ;;
    3) mv "$file" "$dir/runs/moved" && ln -s "$dir/runs/moved" "$file" ;;
    4) rm "$file" && mkfifo "$file" ;;
  esac
  # Without a file as its manifest a folder is no checkpoint, and the one before is the newest.
  if [ -f "$file" ] || [ "$(basename "$file")" != manifest.json ]; then
    refused 1 "$(basename "$file")" "$fascicle" train --resume "$run" --steps 8
  fi
  rm -r "$(dirname "$file")"
  intact 4
  resumes
}

# A file that its reader may not open, tried without the rights of root.
fault_unreadable_file() {
  fresh
  some_file
  chmod -R a+rwX "$dir"
  chmod 000 "$file"
  local drop=()
  if [ "$(id -u)" -eq 0 ]; then
    command -v setpriv >/dev/null || { skip 'no setpriv'; return; }
    drop=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  fi
  refused 1 "$file.*ermission denied" "${drop[@]}" "$fascicle" train --resume "$run" --steps 8
  chmod 644 "$file"
  intact 6
  resumes
}

fault_two_writers() {
  local begun
  run=$dir/runs/$fault-$round
  mkdir -p "$dir/runs"
  begin "$fascicle" train "${small[@]}" --grid "${grids[$(random 0 3)]}" --steps 1000000 --out "$run"
  cp "$dir/log" "$dir/first"
  refused 2 "$run.*another program is training|another program is training.*$run" "$fascicle" train --resume "$run" --steps 1000001
  kill -TERM "$job"
  begun=$SECONDS
  finish "$begun"
  [ "$status" -eq 3 ] || fail "the first writer: status $status, needs 3"
  intact "$(tail -n 1 "$run/metrics.jsonl" | grep -oE '"step":[0-9]+' | grep -oE '[0-9]+')"
  resumes
}

fault_other_data() {
  fresh
  local at=$(random 1 400)
  # One letter of one line.
  sed "${at}s/lazy/hazy/" "$dir/text.txt" >"$dir/runs/other.txt"
  refused 2 'was made with other data: .*; found' "$fascicle" train --resume "$run" --steps 8 --data "$dir/runs/other.txt"
  intact 6
  resumes
}
