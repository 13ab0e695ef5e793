'use strict'
// The name of the native module for this system, below `prebuilds`.

/** Reports whether Node.js uses musl instead of glibc. */
function isMusl () {
  return process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime
}

exports.file = () => `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}/firn.node`
