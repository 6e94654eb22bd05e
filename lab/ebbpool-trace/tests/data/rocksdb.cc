// Writes a small block cache trace: two column families, gets, a scan, and a compaction.
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/cache.h>
#include <rocksdb/trace_reader_writer.h>
#include <cstdio>
#include <cstdlib>
using namespace rocksdb;
static void ok(const Status& s){ if(!s.ok()){ fprintf(stderr,"%s\n",s.ToString().c_str()); exit(1);} }
int main(int, char** argv){
  Options o; o.create_if_missing=true; o.create_missing_column_families=true; o.compression=kNoCompression;
  BlockBasedTableOptions t; t.block_cache=NewLRUCache(16<<10); t.block_size=1024; t.cache_index_and_filter_blocks=true; t.filter_policy.reset(NewBloomFilterPolicy(10)); t.block_cache_compressed=nullptr;
  o.table_factory.reset(NewBlockBasedTableFactory(t)); o.max_open_files=10; o.disable_auto_compactions=true;
  std::vector<ColumnFamilyDescriptor> f{{kDefaultColumnFamilyName,o},{"orders",o}}; std::vector<ColumnFamilyHandle*> h; DB* db;
  ok(DB::Open(o,argv[1],f,&h,&db));
  for(int c=0;c<2;c++){ for(int i=0;i<200;i++){ char k[16]; snprintf(k,16,"k%05d",i); ok(db->Put(WriteOptions(),h[c],k,std::string(40,'v'))); } ok(db->Flush(FlushOptions(),h[c])); }
  std::unique_ptr<TraceWriter> w; ok(NewFileTraceWriter(Env::Default(),EnvOptions(),argv[2],&w));
  ok(db->StartBlockCacheTrace(TraceOptions(),std::move(w)));
  unsigned x=1; for(int i=0;i<60;i++){ x=x*1103515245u+12345u; char k[16]; snprintf(k,16,"k%05d",(x>>16)%250); std::string v; db->Get(ReadOptions(),h[(x>>8)&1],k,&v); }
  { std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions(),h[1])); int n=0; for(it->SeekToFirst();it->Valid()&&n<100;it->Next()) n++; }
  std::vector<Slice> keys{"k00001","k00002","k00150"}; std::vector<std::string> vals; db->MultiGet(ReadOptions(),{h[0],h[0],h[0]},keys,&vals);
  ok(db->CompactRange(CompactRangeOptions(),h[0],nullptr,nullptr));
  ok(db->EndBlockCacheTrace());
  for(auto* p:h) db->DestroyColumnFamilyHandle(p); delete db;
}
