-- Outages that customers report by telephone and no monitor has detected. The results of an hour are emitted when
-- both monitors have closed the hour. Its state is purged when the calls have closed it too.

CREATE STREAM monitor1 (zoneid INT NOT NULL, hour INT NOT NULL)
  WITH (source = 'samples/monitor1.xml', element = 'report');

CREATE STREAM monitor2 (zoneid INT NOT NULL, hour INT NOT NULL)
  WITH (source = 'samples/monitor2.xml', element = 'report');

CREATE STREAM calls (zoneid INT NOT NULL, hour INT NOT NULL)
  WITH (source = 'samples/calls.xml', element = 'call');

SELECT zoneid, hour FROM calls
EXCEPT
(SELECT zoneid, hour FROM monitor1 UNION SELECT zoneid, hour FROM monitor2);
