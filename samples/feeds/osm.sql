-- OpenStreetMap: what is known of each place that has an amenity. A node has any number of tags, which are an array;
-- a path also picks one of them by its key. The document is compressed, as extracts are.

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
