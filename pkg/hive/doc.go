// Package hive knows how hive is installed on nodes, how a cluster of it is formed and started, and when it is healthy.
//
// What happens on a node is in the scripts of the directory scripts, each of which documents the HIVE_* variables it
// takes; a directory of one's own overrides them file by file. What is judged is judged from outside: a cluster is
// formed if the facts hold for all its nodes (see [Cluster.Check]), never because a script has ended well.
//
// Two generations of hive are supported and told apart by asking: plain HTTP or HTTPS on the daemon's port, a join
// token or none, the AWS profile "hive" or "spinifex".
package hive
