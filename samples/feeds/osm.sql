-- OpenStreetMap: the name and tags of each place with an amenity. The tags of a node are an array of any length. A path
-- can also select one tag by its key. The document is compressed, as extracts usually are.

CREATE STREAM node (
  id INT NOT NULL PATH '@id',
  lat DECIMAL(9,7) PATH '@lat',
  lon DECIMAL(10,7) PATH '@lon',
  amenity STRING PATH 'tag[@k=''amenity'']/@v',
  name STRING PATH 'tag[@k=''name'']/@v',
  tag ARRAY(k STRING PATH '@k', v STRING PATH '@v')
) WITH (source = 'samples/feeds/osm.xml.gz', element = 'node');

SELECT id, lat, lon, amenity, COALESCE(name, 'unnamed') AS name, k, v
FROM node CROSS JOIN UNNEST(tag) AS t
WHERE amenity IS NOT NULL AND k NOT IN ('amenity', 'name');
