-- NETCONF notifications: the number of changes of each link in each hour, and the line of the first log entry. The
-- event is in its own namespace inside the notification. The log closes each hour with a punctuation, which releases
-- the results of the hour.

CREATE STREAM notification (
  XMLNAMESPACES('urn:ietf:params:xml:ns:netconf:notification:1.0' AS n, 'urn:example:links' AS link),
  at TIMESTAMP NOT NULL PATH 'n:eventTime',
  interface STRING PATH 'link:link-state/link:if-name',
  state STRING PATH 'link:link-state/link:state',
  severity STRING PATH 'link:link-state/link:severity'
) WITH (source = 'samples/feeds/netconf.xml', element = 'n:notification');

SELECT DATE_TRUNC('hour', at) AS hour, interface, COUNT(*) AS changes, MIN("$line") AS first,
       COUNT(severity) AS alarms
FROM notification
WHERE state IS NOT NULL
GROUP BY DATE_TRUNC('hour', at), interface;
