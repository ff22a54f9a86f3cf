-- SIRI estimated timetables: for each minute the journeys of a line, their remaining stops (in all, and at most), and
-- the last arrival. Deliveries are nested: the producer and the time of recording are in elements around a journey; its
-- calls are an array inside. The feed closes the times of recording with punctuations, and each releases the minutes
-- before it.

CREATE STREAM journey (
  XMLNAMESPACES(DEFAULT 'http://www.siri.org.uk/siri'),
  producer STRING PATH '../../../ProducerRef',
  recorded TIMESTAMP NOT NULL PATH '../RecordedAtTime',
  line STRING NOT NULL PATH 'LineRef',
  journey STRING NOT NULL PATH 'DatedVehicleJourneyRef',
  call ARRAY(stop STRING PATH 'StopPointRef', aimed TIMESTAMP PATH 'AimedArrivalTime',
             expected TIMESTAMP PATH 'ExpectedArrivalTime') PATH 'EstimatedCalls/EstimatedCall'
) WITH (source = 'samples/feeds/siri.xml', element = 'EstimatedVehicleJourney');

SELECT DATE_TRUNC('minute', recorded) AS minute, line, producer, COUNT(DISTINCT journey) AS journeys,
       COUNT(stop) AS calls, MAX(n) AS longest, MAX(COALESCE(expected, aimed)) AS arrival
FROM journey LEFT JOIN UNNEST(call) WITH ORDINALITY AS c(stop, aimed, expected, n) ON TRUE
GROUP BY DATE_TRUNC('minute', recorded), line, producer;
