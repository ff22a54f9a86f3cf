CREATE STREAM activity (
  XMLNAMESPACES(DEFAULT 'http://www.siri.org.uk/siri'),
  request STRING NOT NULL PATH '../../RequestMessageRef',
  vehicle STRING NOT NULL PATH 'MonitoredVehicleJourney/VehicleRef'
) WITH (source = 'samples/standards/siri.xml', element = 'VehicleActivity')
  PUNCTUATE ON 'ServiceDelivery' WHERE 'MoreData' = 'false' CLOSES (request = 'RequestMessageRef');
SELECT request, COUNT(DISTINCT vehicle) AS vehicles FROM activity GROUP BY request
