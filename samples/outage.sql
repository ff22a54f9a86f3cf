-- The outages that customers report by telephone and no monitor of the equipment has noticed: each hour's as soon as
-- both monitors have said that the hour is over. Nothing of it is kept once the calls have said so, too.

CREATE STREAM monitor1 (zoneid INT NOT NULL, hour INT NOT NULL)
  WITH (source = 'samples/monitor1.xml', element = 'report');

CREATE STREAM monitor2 (zoneid INT NOT NULL, hour INT NOT NULL)
  WITH (source = 'samples/monitor2.xml', element = 'report');

CREATE STREAM calls (zoneid INT NOT NULL, hour INT NOT NULL)
  WITH (source = 'samples/calls.xml', element = 'call');

SELECT zoneid, hour FROM calls
EXCEPT
(SELECT zoneid, hour FROM monitor1 UNION SELECT zoneid, hour FROM monitor2);
