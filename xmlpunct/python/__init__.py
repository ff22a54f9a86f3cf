"""The Python interface: query, parse, slices, scan_xml."""
