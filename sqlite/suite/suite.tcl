# Runs one file of SQLite's permutation "veryquick". Without FILE it prints the version of SQLite, what the VFS ebbpool says of
# a database if that is the default, and the names of all files, one a line:
#
#     SOURCE=… testfixture suite.tcl [FILE]
#
# Of the tests that exist for connections of one process and of several, those of one run: SQLite leaves the others out, too,
# for its own VFS that keeps other processes out (`unix-excl`), and under valgrind.
set argv0 $env(SOURCE)/test/suite.tcl
set file [lindex $argv 0]
set argv {}
source $env(SOURCE)/test/permutations.test
# Through which VFS SQLite opens databases if none is named.
puts "VFS [test_syscall defaultvfs]"
if {$file eq ""} {
  puts "VERSION SQLite [sqlite3 -version] [sqlite3 -sourceid]"
  sqlite3 db probe.db
  db eval { CREATE TABLE t(a); INSERT INTO t VALUES(1) }
  puts "STATUS [db eval { PRAGMA ebbpool_status }]"
  db close
  foreach file [dict get $testspec(veryquick) -files] { puts "FILE [file tail $file]" }
  exit 0
}

# Prints how many cases the file itself has run. SQLite's own count has those of the frame around it too, of which there are
# some for a file without a case.
rename slave_test_script run_script
proc slave_test_script {script} {
  run_script $script
  puts "\nCASES [set_test_counter count]"
}

set G(valgrind) 1
# Files of extensions are elsewhere.
set path [lsearch -inline -glob [dict get $testspec(veryquick) -files] */$file]
run_tests veryquick {*}$testspec(veryquick) -files [expr {$path eq "" ? $file : $path}]
finish_test
