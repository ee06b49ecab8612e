# Makes a table of the benchmarks of scale: a row for each figure, a column for each number of
# hosts, and the figures at 1,000 and 10,000 hosts in parts of that at 8.
/^BenchmarkScale/ {
  name = $1
  sub(/^BenchmarkScale/, "", name)
  sub(/-[0-9]+$/, "", name)
  if (!match(name, /\/hosts=[0-9]+/)) next
  hosts = substr(name, RSTART + 7, RLENGTH - 7)
  name = substr(name, 1, RSTART - 1) substr(name, RSTART + RLENGTH)
  for (i = 3; i < NF; i += 2) {
    unit = $(i + 1)
    if (unit == "of-8-hosts") continue
    row = name " | " unit
    if (!(row in seen)) { seen[row] = 1; rows[++n] = row }
    value[row, hosts] = $i
  }
}
function ratio(row, hosts) {
  if (value[row, hosts] == "" || value[row, 8] + 0 == 0) return ""
  return sprintf("%.2f", value[row, hosts] / value[row, 8])
}
END {
  print "| benchmark | unit | 8 hosts | 1,000 hosts | 10,000 hosts | 1,000 : 8 | 10,000 : 8 |"
  print "|---|---|---|---|---|---|---|"
  for (i = 1; i <= n; i++) {
    row = rows[i]
    printf "| %s | %s | %s | %s | %s | %s |\n", row, value[row, 8], value[row, 1000], value[row, 10000], ratio(row, 1000), ratio(row, 10000)
  }
  exit n == 0
}
