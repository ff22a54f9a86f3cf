-- GPX: the highest point and the fastest heart rate of each track in each hour. Attributes identify a point; a child of
-- the element around its segment identifies the track. Points are in order of time, which closes each hour.

CREATE STREAM point (
  XMLNAMESPACES(DEFAULT 'http://www.topografix.com/GPX/1/1',
                'http://www.garmin.com/xmlschemas/TrackPointExtension/v1' AS t),
  track STRING PATH '../../name',
  lat DECIMAL(9,6) NOT NULL PATH '@lat',
  lon DECIMAL(9,6) NOT NULL PATH '@lon',
  ele DECIMAL(7,1),
  time TIMESTAMP NOT NULL,
  heart INT PATH 'extensions/t:TrackPointExtension/t:hr'
) WITH (source = 'samples/feeds/gpx.xml', element = 'trkpt')
  PUNCTUATE ORDER BY time;

SELECT track, DATE_TRUNC('hour', time) AS hour, COUNT(*) AS points, MAX(ele) AS highest, MAX(heart) AS heart,
       MIN(lat) AS south, MAX(lat) AS north, MIN(lon) AS west, MAX(lon) AS east
FROM point
GROUP BY track, DATE_TRUNC('hour', time);
