// Package wire reads and writes the requests and answers of AWS's EC2 API, version 2016-11-15: the query protocol, which
// is forms in and XML out. What an action takes and answers with is in a table of shapes, and values are plain objects.
package wire
