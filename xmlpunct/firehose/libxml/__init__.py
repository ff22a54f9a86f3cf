"""libxml2 through lxml: it reads what the native reader does not prove, and is the judge of what is malformed."""
