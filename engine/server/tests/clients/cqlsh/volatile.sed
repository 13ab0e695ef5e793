# What is another each time: versions, times, addresses, rates.
/^WARNING: cqlsh was built against/d
s/cqlsh [0-9.]*/cqlsh X/
s/Tracing session: .*/Tracing session: X/
/^ activity /d
/^-----.*+-----/d
s/|.*127\.0\.0\.1.*//
s/\[firn-[a-z0-9-]*\]/[THREAD]/
s/^ *//
s/ *$//
/^Processed:/d
/Processed: .*rows\/s$/d
s/in [0-9.]* seconds/in X seconds/
s/^Using [0-9]* child/Using N child/
